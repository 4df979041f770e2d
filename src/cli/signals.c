/* SPDX-License-Identifier: Apache-2.0
 * Signals (signals.h). The handler does nothing but set a lock-free flag or leave. */
#include "cli/signals.h"

#include <signal.h>
#include <string.h>
#include <unistd.h>

atomic_int cli_stop;

static void on_signal(int number)
{
    int none = 0;
    if (!atomic_compare_exchange_strong(&cli_stop, &none, number))
        _exit(128 + number);
}

void cli_signals_catch(void)
{
    static const int numbers[] = {SIGINT, SIGTERM, SIGHUP};
    struct sigaction action, before;
    memset(&action, 0, sizeof action);
    action.sa_handler = on_signal;
    sigemptyset(&action.sa_mask);
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
        if (!sigaction(numbers[i], NULL, &before) && before.sa_handler != SIG_IGN)
            sigaction(numbers[i], &action, NULL);
}
