/* SPDX-License-Identifier: Apache-2.0
 * Looks at a file or folder of data, or at a file of tensors, for `isochron inspect`; the command prints. */
#include <string.h>

#include "base/bytes.h"
#include "engine/file/file.h"
#include "engine/file/open_data.h"

static bool ends_with(const char *text, const char *end)
{
    size_t n = strlen(text), m = strlen(end);
    return n >= m && strcmp(text + n - m, end) == 0;
}

/* By name, or by a header that fits the file and begins with {. */
static bool looks_like_tensors(const char *path, const iso_bytes *b)
{
    if (ends_with(path, ".safetensors"))
        return true;
    return b->size >= 10 && iso_load_u64(b->bytes) <= b->size - 8 && b->bytes[8] == '{';
}

static int inspect_file(const char *path, const char *format, const iso_alloc *a, iso_inspection *out, iso_error *e)
{
    int status = iso_file_load(path, 0, NULL, a, &out->bytes, &out->gzip, e);
    if (status != ISO_OK)
        return status;
    const char *name = strcmp(path, "-") == 0 ? "standard input" : path;
    if ((!format || strcmp(format, "auto") == 0) && looks_like_tensors(path, &out->bytes)) {
        out->kind = ISO_INSPECT_TENSORS;
        return iso_tensors_read(&out->tensors, out->bytes.bytes, out->bytes.size, name, a, e);
    }
    out->kind = ISO_INSPECT_DATA;
    status = iso_data_read(&out->bytes, &(iso_read_options){.name = name, .format = format}, a, &out->set, e);
    iso_bytes_release(&out->bytes); /* empty when the data set took them */
    return status == ISO_OK ? iso_data_report_make(&out->report, &out->set, a, e) : status;
}

static int inspect_folder(const char *path, const char *format, const iso_alloc *a, iso_inspection *out, iso_error *e)
{
    iso_data d;
    out->kind = ISO_INSPECT_FOLDER;
    int status = iso_data_open(&(iso_data_source){.path = path, .format = format}, a, &d, e);
    if (status != ISO_OK)
        return status;
    out->set = d.train;
    out->test = d.test;
    out->has_test = d.has_test;
    d.train = d.test = (iso_dataset){0};
    iso_data_close(&d);
    status = iso_data_report_make(&out->report, &out->set, a, e);
    if (status == ISO_OK && out->has_test)
        status = iso_data_report_make(&out->test_report, &out->test, a, e);
    return status;
}

int iso_inspect(const char *path, const char *format, const iso_alloc *a, iso_inspection *out, iso_error *e)
{
    *out = (iso_inspection){.path = path};
    bool folder = strcmp(path, "-") != 0 && iso_path_kind_of(path) == ISO_PATH_FOLDER;
    int status = folder ? inspect_folder(path, format, a, out, e) : inspect_file(path, format, a, out, e);
    if (status != ISO_OK)
        iso_inspection_free(out);
    return status;
}

void iso_inspection_free(iso_inspection *i)
{
    if (!i)
        return;
    iso_tensors_free(i->tensors);
    iso_data_report_free(&i->report);
    iso_data_report_free(&i->test_report);
    iso_dataset_free(&i->set);
    iso_dataset_free(&i->test);
    iso_bytes_release(&i->bytes);
    *i = (iso_inspection){0};
}
