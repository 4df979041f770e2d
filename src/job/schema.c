/* SPDX-License-Identifier: Apache-2.0
 * The table of schema.h and how rows are found. */
#include "job/schema.h"

#include <assert.h>
#include <string.h>

static const char *const normalize_words[] = {"none", "unit", "standard", NULL};
static const char *const loss_words[] = {"cross-entropy", "mse", NULL};
static const char *const init_words[] = {"auto", "lecun", "xavier", "he", NULL};
static const char *const optimizer_words[] = {"sgd", "nesterov", "adam", NULL};
static const char *const schedule_words[] = {"constant", "step", "cosine", NULL};
static const char *const engine_words[] = {"local", NULL};

/* A choice's value is the index of its word and is stored as an int. */
static_assert(sizeof(iso_loss) == sizeof(int) && sizeof(iso_init) == sizeof(int), "enums are ints");
static_assert(ISO_JOB_NORMALIZE_UNIT == 1 && ISO_JOB_NORMALIZE_STANDARD == 2 && ISO_LOSS_MSE == 1,
              "words in the enum's order");
static_assert(ISO_INIT_LECUN == 1 && ISO_INIT_XAVIER == 2 && ISO_INIT_HE == 3, "words in the enum's order");
static_assert(ISO_NESTEROV == 1 && ISO_ADAM == 2 && ISO_STEP == 1 && ISO_COSINE == 2, "words in the enum's order");

#define AT(member) offsetof(iso_job, member)

const job_row iso_job_rows[] = {
    {"name", JOB_NAME, JOB_RESUME, AT(name), 0, 0, 0, NULL, "", "what the run is called; the file's name, else model and data"},
    {"data", JOB_SECTION, 0, 0, 0, 0, 0, NULL, "path", "the data; `data: PATH` is short for {path: PATH}"},
    {"data.path", JOB_PATH, JOB_RESUME, AT(data.path), 0, 0, 0, NULL, "",
     "a file, or a folder that holds train and test in the usual names; required"},
    {"data.test", JOB_PATH, JOB_RESUME, AT(data.test), 0, 0, 0, NULL, "", "the test set, when the folder does not tell"},
    {"data.labels", JOB_PATH, JOB_RESUME, AT(data.labels), 0, 0, 0, NULL, "",
     "the labels, when the name of the images does not tell"},
    {"data.format", JOB_WORD, JOB_RESUME, AT(data.format), 0, 0, 0, NULL, "auto",
     "auto looks at the content; or a format's name"},
    {"data.validation", JOB_VALIDATION, 0, 0, 0, 1, 0, NULL, "0",
     "a share of the training set, 0.1, or the path of a set; best.safetensors keeps the weights of its lowest loss"},
    {"data.normalize", JOB_CHOICE, 0, AT(data.normalize), 0, 0, 0, normalize_words, "standard",
     "standard: minus mean, by deviation of the training set; unit: to 0..1; none"},
    {"data.augment", JOB_SECTION, 0, 0, 0, 0, 0, NULL, "", "changes to the training images, other ones each epoch"},
    {"data.augment.shift", JOB_U32, 0, AT(data.shift), 0, 64, 0, NULL, "0", "moved by up to so many pixels"},
    {"data.augment.flip", JOB_BOOL, 0, AT(data.flip), 0, 0, 0, NULL, "false", "half of them mirrored, left to right"},
    {"model", JOB_SECTION, 0, 0, 0, 0, 0, NULL, "preset",
     "the network; `model: lenet5` is short for {preset: lenet5}; required"},
    {"model.preset", JOB_PRESET, 0, AT(model.preset), 0, 0, 0, NULL, "", "a ready network by name"},
    {"model.classes", JOB_U32, JOB_AUTO, AT(model.classes), 1, 65536, 0, NULL, "auto",
     "outputs; auto: as many as the data has"},
    {"model.hidden", JOB_WIDTHS, 0, AT(model.hidden), 1, 65536, 0, NULL, "",
     "mlp: widths of the hidden layers, [256, 128]"},
    {"model.activation", JOB_WORD, 0, AT(model.activation), 0, 0, 0, NULL, "", "mlp: what follows each hidden layer"},
    {"model.form", JOB_WORD, 0, AT(model.form), 0, 0, 0, NULL, "", "lenet5: modern or 1998"},
    {"model.init", JOB_CHOICE, 0, AT(model.init), 0, 0, 0, init_words, "auto",
     "spread of the first weights; auto: the preset's; he before relu, lecun before tanh, else xavier"},
    {"model.layers", JOB_LAYERS, 0, AT(model.layers), 0, 0, 0, NULL, "",
     "instead of a preset: [conv: {filters: 6, kernel: 5}, relu, max_pool: 2, flatten, dense: 10]"},
    {"loss", JOB_CHOICE, 0, AT(loss), 0, 0, 0, loss_words, "cross-entropy", "what is made small"},
    {"optimizer", JOB_SECTION, 0, 0, 0, 0, 0, NULL, "name", "`optimizer: adam` is short for {name: adam}"},
    {"optimizer.name", JOB_CHOICE, 0, AT(optimizer.kind), 0, 0, 0, optimizer_words, "sgd",
     "how weights follow gradients"},
    {"optimizer.learning_rate", JOB_REAL, JOB_AUTO, AT(optimizer.learning_rate), 1e-30, 1e30, 0, NULL, "auto",
     "step size; auto: 0.05 (batch below 64: 0.05*batch/64), adam 0.001"},
    {"optimizer.momentum", JOB_REAL, JOB_BELOW, AT(optimizer.momentum), 0, 1, 0, NULL, "0.9", "sgd and nesterov"},
    {"optimizer.beta1", JOB_REAL, JOB_BELOW, AT(optimizer.beta1), 0, 1, 0, NULL, "0.9", "adam: memory of the mean"},
    {"optimizer.beta2", JOB_REAL, JOB_BELOW, AT(optimizer.beta2), 0, 1, 0, NULL, "0.999", "adam: memory of the square"},
    {"optimizer.epsilon", JOB_REAL, 0, AT(optimizer.epsilon), 1e-30, 1, 0, NULL, "1e-08",
     "adam: keeps the division sane"},
    {"optimizer.weight_decay", JOB_REAL, 0, AT(optimizer.weight_decay), 0, 1e30, 0, NULL, "0",
     "pull of the weights to 0"},
    {"optimizer.decay_bias", JOB_BOOL, 0, AT(optimizer.decay_bias), 0, 0, 0, NULL, "false",
     "weight_decay for biases as well"},
    {"schedule", JOB_SECTION, 0, 0, 0, 0, 0, NULL, "name", "how the learning rate changes; `schedule: step` is short"},
    {"schedule.name", JOB_CHOICE, 0, AT(schedule.kind), 0, 0, 0, schedule_words, "cosine",
     "the curve after the warm-up"},
    {"schedule.warmup_epochs", JOB_REAL, 0, AT(schedule.warmup_epochs), 0, 1e6, 0, NULL, "0",
     "a straight rise of the rate first"},
    {"schedule.step_epochs", JOB_REAL, JOB_ABOVE, AT(schedule.step_epochs), 0, 1e6, 0, NULL, "10",
     "step: length of a step"},
    {"schedule.gamma", JOB_REAL, JOB_ABOVE, AT(schedule.gamma), 0, 1e6, 0, NULL, "0.1",
     "step: the rate is multiplied by it"},
    {"schedule.final_factor", JOB_REAL, 0, AT(schedule.final_factor), 0, 1, 0, NULL, "0",
     "cosine: the share that is left"},
    {"batch", JOB_U64, 0, AT(batch), 1, 1e9, 0, NULL, "64", "samples in an update, over all workers"},
    {"unit", JOB_U32, JOB_AUTO, AT(unit), ISO_LANES, ISO_UNIT_MAX, ISO_LANES, NULL, "auto",
     "samples in a computing unit"},
    {"epochs", JOB_U32, 0, AT(epochs), 1, 1e6, 0, NULL, "10", "times through the training set, earlier runs included"},
    {"sync", JOB_SYNC, 0, 0, 0, 0, 0, NULL, "nns", "how workers agree: a policy or {policy: NAME, ...}"},
    {"engine", JOB_SECTION, 0, 0, 0, 0, 0, NULL, "name", "where it runs"},
    {"engine.name", JOB_CHOICE, JOB_RESUME, AT(engine), 0, 0, 0, engine_words, "local",
     "local: threads of this computer"},
    {"workers", JOB_U32, JOB_AUTO | JOB_RESUME, AT(workers), 1, 1024, 0, NULL, "auto",
     "threads that compute; auto: one a core"},
    {"checkpoint", JOB_SECTION, 0, 0, 0, 0, 0, NULL, "every", "when the state is saved; `checkpoint: 500` is short"},
    {"checkpoint.every", JOB_U64, JOB_RESUME, AT(checkpoint.every), 0, 1e15, 0, NULL, "500",
     "rounds; 0: not by rounds"},
    {"checkpoint.seconds", JOB_REAL, JOB_RESUME, AT(checkpoint.seconds), 0, 1e9, 0, NULL, "60", "0: not by time"},
    {"checkpoint.keep", JOB_U32, JOB_RESUME, AT(checkpoint.keep), 1, 1000, 0, NULL, "2", "so many are kept"},
    {"seed", JOB_U64, 0, AT(seed), 0, 1e300, 0, NULL, "1",
     "of every random number: the same seed gives the same weights"},
    {"out", JOB_PATH, JOB_RESUME, AT(out), 0, 0, 0, NULL, "", "the run folder; runs/NAME, numbered when that is taken"},
    {"init", JOB_PATH, JOB_PLACE, AT(init), 0, 0, 0, NULL, "", "start from the weights of a model file or run folder"},
};

static_assert(sizeof iso_job_rows / sizeof *iso_job_rows <= JOB_ROWS_MAX, "readers keep one flag a row");

const uint32_t iso_job_row_count = sizeof iso_job_rows / sizeof *iso_job_rows;

const job_row *iso_job_row_find(const char *path, size_t length)
{
    for (uint32_t i = 0; i < iso_job_row_count; i++)
        if (strlen(iso_job_rows[i].path) == length && !memcmp(iso_job_rows[i].path, path, length))
            return &iso_job_rows[i];
    return NULL;
}

const char *iso_job_row_word(const job_row *row)
{
    const char *dot = strrchr(row->path, '.');
    return dot ? dot + 1 : row->path;
}

bool iso_job_row_is_in(const job_row *row, const job_row *section)
{
    size_t length = section ? strlen(section->path) : 0;
    if (section && (strncmp(row->path, section->path, length) || row->path[length] != '.'))
        return false;
    return !strchr(row->path + (section ? length + 1 : 0), '.');
}

const job_row *iso_job_row_in(const job_row *section, const char *name)
{
    for (uint32_t i = 0; i < iso_job_row_count; i++)
        if (iso_job_row_is_in(&iso_job_rows[i], section) && !strcmp(iso_job_row_word(&iso_job_rows[i]), name))
            return &iso_job_rows[i];
    return NULL;
}

bool iso_job_key_at(uint32_t index, iso_job_key *out)
{
    static const char *const types[] = {
        "section",       "path", "word", "name",           "whole number",          "whole number",   "number",
        "true or false", "word", "word", "number or path", "list of whole numbers", "list of layers", "policy"};
    if (index >= iso_job_row_count)
        return false;
    const job_row *row = &iso_job_rows[index];
    *out = (iso_job_key){row->path, types[row->type], row->type == JOB_SECTION ? "" : row->standard, row->help};
    return true;
}
