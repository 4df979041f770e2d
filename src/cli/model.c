/* SPDX-License-Identifier: Apache-2.0
 * Opening a trained model (model.h). */
#include "cli/model.h"

#include <string.h>

#include "cli/command.h"
#include "cli/output.h"
#include "engine/file/file.h"

int cli_model_open(const cli_arguments *a, iso_trained **out)
{
    iso_isa isa;
    iso_error e = {0};
    int status = cli_isa_read(a, &isa);
    if (!status)
        status = cli_failed(iso_model_open(out, a->word[0], isa, NULL, &e), &e);
    if (status)
        return status;
    const char *file = iso_path_name(iso_model_path(*out));
    if (iso_path_kind_of(a->word[0]) == ISO_PATH_FOLDER && strcmp(file, "model.safetensors") != 0)
        cli_warning("%s has no model.safetensors: %s is taken, the state at a round of the training", a->word[0], file);
    return 0;
}
