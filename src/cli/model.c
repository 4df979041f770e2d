/* SPDX-License-Identifier: Apache-2.0
 * Opening a trained model (model.h). */
#include "cli/model.h"

#include "cli/command.h"
#include "cli/output.h"

int cli_model_open(const cli_arguments *a, iso_trained **out)
{
    iso_isa isa;
    iso_error e = {0};
    int status = cli_isa_read(a, &isa);
    return status ? status : cli_failed(iso_model_open(out, a->word[0], isa, NULL, &e), &e);
}
