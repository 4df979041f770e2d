/* SPDX-License-Identifier: Apache-2.0
 * The trained model that a command works with. */
#ifndef ISO_CLI_MODEL_H
#define ISO_CLI_MODEL_H

#include "cli/arguments.h"
#include "isochron/train.h"

/* Opens what the command's first word names, with --isa; close it by iso_model_close. Prints what is wrong; returns an exit status. */
int cli_model_open(const cli_arguments *a, iso_trained **out);

#endif
