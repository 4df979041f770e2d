/* SPDX-License-Identifier: Apache-2.0
 * From a command line to a job: the file first, the options over it in the order they were given. */
#include <stdio.h>
#include <string.h>

#include "cli/command.h"
#include "cli/output.h"
#include "engine/file/file.h"
#include "engine/run/folder.h"

static int read_file(const char *path, iso_job *job, iso_error *e)
{
    iso_bytes bytes;
    int r = iso_file_read(path, (size_t)ISO_JOB_BYTES_MAX + 1, NULL, &bytes, e);
    if (r)
        return r;
    r = iso_job_parse(job, path, bytes.bytes ? (const char *)bytes.bytes : "", bytes.size, NULL, e);
    iso_bytes_release(&bytes);
    return r;
}

/* How deep the key of an option lies: --model 0, --data and --set model.hidden=... 1; -1: it sets no key. */
static int depth_of(const cli_option *o, const char *value)
{
    const char *key = strcmp(o->name, "set") ? o->key : value;
    int depth = key ? 0 : -1;
    for (; key && *key && *key != '='; key++)
        depth += *key == '.';
    return depth;
}

/* A section given as a whole begins from its defaults, so those go first: what is said of a key inside holds, whatever
 * the order of the words. */
static int apply_flags(const cli_arguments *a, iso_job *job, iso_error *e)
{
    int deepest = 0, r = ISO_OK;
    for (int depth = 0; depth <= deepest && !r; depth++)
        for (size_t i = 0; i < a->given_count && !r; i++) {
            const cli_option *o = a->given[i].option;
            int at = depth_of(o, a->given[i].value);
            deepest = at > deepest ? at : deepest;
            char flag[64] = "--";
            strncat(flag, o->name, sizeof flag - 3);
            if (at == depth && !a->given[i].value[0]) /* an empty variable of a script */
                r = iso_error_set(e, ISO_E_ARGUMENT, "%s: %s has no value", flag, o->key ? o->key : "KEY=VALUE");
            else if (at == depth)
                r = strcmp(o->name, "set") ? iso_job_set_text(job, flag, o->key, a->given[i].value, e)
                                           : iso_job_set(job, a->given[i].value, NULL, e);
        }
    return r;
}

int cli_job_read(const cli_arguments *a, const char *file, iso_job *job)
{
    iso_error e = {0};
    iso_job_default(job);
    int r = file ? read_file(file, job, &e) : ISO_OK;
    if (!r)
        r = apply_flags(a, job, &e);
    if (!r)
        r = iso_job_finish(job, &e);
    return r == ISO_E_FORMAT || r == ISO_E_IO ? cli_failed(ISO_E_ARGUMENT, &e) : cli_failed(r, &e);
}

/* Does the command line itself say what to train? */
static bool gives_job(const cli_arguments *a)
{
    for (size_t i = 0; i < a->given_count; i++) {
        const cli_option *o = a->given[i].option;
        if (!strcmp(o->name, "set") || !strcmp(o->name, "data") || !strcmp(o->name, "model"))
            return true;
    }
    return false;
}

int cli_run_job_read(const cli_arguments *a, bool resume, iso_job *job)
{
    char path[ISO_PATH_MAX + 16];
    const char *file = a->word_count ? a->word[0] : NULL, *out = cli_given(a, "out"), *folder = NULL;
    if (file && iso_path_kind_of(file) == ISO_PATH_FOLDER) {
        if (!resume) {
            cli_error("%s is a folder; a job file is wanted, or --resume to go on with the run in it", file);
            return 2;
        }
        folder = file;
        file = NULL;
    } else if (!file && resume && !out) {
        cli_error("--resume wants the run folder: --out FOLDER");
        return 2;
    } else if (!file && resume) {
        folder = out;
    }
    iso_error e = {0};
    int code = folder ? iso_run_look(folder, NULL, &e) : ISO_OK;
    if (code)
        return cli_failed(code, &e);
    if (folder && snprintf(path, sizeof path, "%s/job.yaml", folder) < (int)sizeof path && iso_path_kind_of(path) == ISO_PATH_FILE) {
        file = path;
    } else if (folder && (folder != out || !gives_job(a))) {
        cli_error("%s: no run to resume: it has no job.yaml", folder);
        return 2;
    }
    int status = cli_job_read(a, file, job);
    if (!status && folder && !out)
        snprintf(job->out, sizeof job->out, "%s", folder);
    if (!status && resume && !job->out[0]) {
        cli_error("--resume wants the run folder: --out FOLDER");
        return 2;
    }
    return status;
}

int cli_isa_read(const cli_arguments *a, iso_isa *out)
{
    const char *word = cli_given(a, "isa");
    *out = ISO_ISA_AUTO;
    if (!word || !iso_isa_parse(word, out))
        return 0;
    cli_error("--isa: unknown word '%s'; there are auto, avx512, avx2, scalar", word);
    return 2;
}

void cli_number_out(iso_job *job, unsigned n)
{
    if (n == 1)
        snprintf(job->out, sizeof job->out, "runs/%s", job->name);
    else
        snprintf(job->out, sizeof job->out, "runs/%s-%u", job->name, n);
}
