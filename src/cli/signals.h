/* SPDX-License-Identifier: Apache-2.0
 * SIGINT, SIGTERM and SIGHUP while a run is on: the first asks it to stop at the last round border, the second ends the process
 * at once. */
#ifndef ISO_CLI_SIGNALS_H
#define ISO_CLI_SIGNALS_H

#include <stdatomic.h>

/* From now on; until then (reading arguments) a signal ends the process as usual. An ignored SIGHUP (nohup) stays ignored. */
void cli_signals_catch(void);
/* 0, or the number of the signal that came; what iso_train polls. A lost reader of standard output counts as SIGPIPE. */
extern atomic_int cli_stop;

#endif
