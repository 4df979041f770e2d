/* SPDX-License-Identifier: Apache-2.0
 * Runs a fuzz target without a fuzzer: every file of the given folders (or files), then for each of them its cuts and a
 * number of random changes. A crash or a failed check ends the program, so saved inputs are ordinary tests.
 *
 *     fuzz_NAME [-m CHANGES] [-s SEED] FOLDER|FILE...
 *
 * Prints the seed and the number of runs; exits 1 when there was nothing to run. */
#include <dirent.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static uint64_t state = 1, runs;
static unsigned long changes = 200;

static uint64_t draw(void)
{
    uint64_t z = state += 0x9E3779B97F4A7C15u;
    z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9u;
    z = (z ^ z >> 27) * 0x94D049BB133111EBu;
    return z ^ z >> 31;
}

/* In a block of exactly this size, so that a sanitizer sees every read beyond it. */
static void run(const uint8_t *bytes, size_t size)
{
    uint8_t *copy = malloc(size ? size : 1);
    if (!copy)
        abort();
    if (size)
        memcpy(copy, bytes, size);
    LLVMFuzzerTestOneInput(copy, size);
    free(copy);
    runs++;
}

/* One to four changes of a byte, a bit, or a run of bytes. */
static void change(uint8_t *bytes, size_t size)
{
    static const uint8_t odd[] = {0, 1, 0x7F, 0x80, 0xFF, '"', '{', ',', '0', '9'};
    for (uint64_t n = 1 + draw() % 4; n && size; n--) {
        size_t at = draw() % size, from = draw() % size, length = 1 + draw() % 8;
        switch (draw() % 4) {
        case 0:
            bytes[at] = (uint8_t)draw();
            break;
        case 1:
            bytes[at] = (uint8_t)(bytes[at] ^ 1u << draw() % 8);
            break;
        case 2:
            bytes[at] = odd[draw() % sizeof odd];
            break;
        default:
            length = length < size - (at > from ? at : from) ? length : size - (at > from ? at : from);
            memmove(bytes + at, bytes + from, length);
        }
    }
}

static void run_file(const char *path)
{
    FILE *f = fopen(path, "rb");
    if (!f || fseek(f, 0, SEEK_END) != 0) {
        fprintf(stderr, "%s: cannot be read\n", path);
        exit(1);
    }
    long length = ftell(f);
    size_t size = length > 0 ? (size_t)length : 0;
    uint8_t *bytes = malloc(size + 1), *changed = malloc(size + 1);
    rewind(f);
    if (!bytes || !changed || fread(bytes, 1, size, f) != size) {
        fprintf(stderr, "%s: cannot be read\n", path);
        exit(1);
    }
    fclose(f);
    run(bytes, size);
    for (size_t cut = 0; cut < size && cut < 512; cut++)
        run(bytes, cut);
    for (unsigned long i = 0; i < changes; i++) {
        memcpy(changed, bytes, size);
        change(changed, size);
        run(changed, size);
    }
    free(bytes);
    free(changed);
}

static void run_path(const char *path)
{
    struct stat info;
    if (stat(path, &info) != 0) {
        fprintf(stderr, "%s: not there\n", path);
        exit(1);
    }
    if (!S_ISDIR(info.st_mode)) {
        run_file(path);
        return;
    }
    struct dirent **entry;
    int count = scandir(path, &entry, NULL, alphasort);
    for (int i = 0; i < count; i++) {
        char child[4096];
        if (entry[i]->d_name[0] != '.') {
            snprintf(child, sizeof child, "%s/%s", path, entry[i]->d_name);
            run_path(child);
        }
        free(entry[i]);
    }
    if (count >= 0)
        free(entry);
}

int main(int argc, char **argv)
{
    int at = 1;
    for (; at + 1 < argc && argv[at][0] == '-'; at += 2) {
        unsigned long value = strtoul(argv[at + 1], NULL, 10);
        if (strcmp(argv[at], "-m") == 0)
            changes = value;
        else if (strcmp(argv[at], "-s") == 0)
            state = value;
        else
            break;
    }
    if (at >= argc || argv[at][0] == '-') {
        fprintf(stderr, "usage: %s [-m CHANGES] [-s SEED] FOLDER|FILE...\n", argv[0]);
        return 1;
    }
    printf("seed %llu, %lu changes a file\n", (unsigned long long)state, changes);
    fflush(stdout);
    for (; at < argc; at++)
        run_path(argv[at]);
    printf("%llu runs\n", (unsigned long long)runs);
    return runs == 0;
}
