/* SPDX-License-Identifier: Apache-2.0
 * Trains LeNet-5 from C and prints what it reached.
 *     cc train.c $(pkg-config --cflags --libs isochron) -o train && ./train DATA-FOLDER RUN-FOLDER [EPOCHS] */
#include <stdio.h>

#include "isochron/job.h"
#include "isochron/train.h"

static void on_epoch(void *context, const iso_epoch_report *r)
{
    (void)context;
    printf("epoch %u of %u: loss %.4f, test accuracy %.4f\n", r->epoch, r->epochs, r->train_loss, r->test_accuracy);
}

int main(int argc, char **argv)
{
    static iso_job job;
    iso_error e;
    iso_summary summary;
    iso_observer observer = {.epoch = on_epoch};
    iso_train_options options;
    if (argc < 3)
        return fprintf(stderr, "usage: %s DATA-FOLDER RUN-FOLDER [EPOCHS]\n", argv[0]), 2;
    iso_job_default(&job);
    iso_train_options_default(&options);
    options.observer = &observer;
    if (iso_job_set(&job, "model=lenet5", NULL, &e) || iso_job_set_text(&job, "DATA", "data.path", argv[1], &e) ||
        iso_job_set_text(&job, "RUN", "out", argv[2], &e) ||
        iso_job_set_text(&job, "EPOCHS", "epochs", argc > 3 ? argv[3] : "3", &e) ||
        iso_train(&job, &options, &summary, &e))
        return fprintf(stderr, "%s\n", e.text), 1;
    printf("%.0f samples a second, test accuracy %.4f, weights %.12s\n", summary.samples_per_second,
           summary.test_accuracy, summary.weights_sha256);
    iso_summary_clear(&summary, NULL);
    return 0;
}
