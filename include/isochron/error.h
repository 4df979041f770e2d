/* SPDX-License-Identifier: Apache-2.0
 * Results and error texts. Every fallible function returns an int: 0, or a negative code of the list below; where a person
 * will read the reason it also fills an iso_error given by the caller. Nothing here prints, exits or allocates. */
#ifndef ISOCHRON_ERROR_H
#define ISOCHRON_ERROR_H

#if defined(__GNUC__)
#define ISO_API __attribute__((visibility("default")))
#define ISO_PRINTF(f, a) __attribute__((format(printf, f, a)))
#else
#define ISO_API
#define ISO_PRINTF(f, a)
#endif

/* X(code, value, sentence) */
#define ISO_STATUS_MAP(X)                                                     \
    X(OK, 0, "done")                                                          \
    X(E_NOMEM, -1, "out of memory")                                           \
    X(E_ARGUMENT, -2, "an argument is outside its range")                     \
    X(E_JOB, -3, "the job file or a flag is wrong")                           \
    X(E_FORMAT, -4, "a file is not in the format it should have")             \
    X(E_SHAPE, -5, "shapes do not fit together")                              \
    X(E_IO, -6, "a file could not be read or written")                        \
    X(E_NONFINITE, -7, "a number is not finite or beyond the gradient grid")  \
    X(E_PROTOCOL, -8, "a frame breaks the protocol")                          \
    X(E_STATE, -9, "the call does not fit the object's state")                \
    X(E_BUSY, -10, "the run folder is in use or not empty")                   \
    X(E_INTERRUPTED, -11, "stopped by a signal or by the caller")             \
    X(E_MISMATCH, -12, "a checkpoint does not belong to this job")            \
    X(E_UNSUPPORTED, -13, "this machine or build cannot do that")             \
    X(E_WRONG, -14, "a checker of the simulation found a wrong result")       \
    X(E_STUCK, -15, "a simulation does not get on any more")

typedef enum iso_status {
#define ISO_STATUS_ENUM(name, value, text) ISO_##name = (value),
    ISO_STATUS_MAP(ISO_STATUS_ENUM)
#undef ISO_STATUS_ENUM
} iso_status;

/* A code and one sentence for a person. Caller-owned; reuse it freely. */
typedef struct iso_error {
    int code;
    char text[1000];
} iso_error;

/* Name of a status ("E_NOMEM"), and its sentence. Never NULL. Thread: any. */
ISO_API const char *iso_status_name(int status);
ISO_API const char *iso_status_text(int status);

/* Fills *e (may be NULL) with the code and the formatted text (cut at the end if too long); returns code. Thread: any. */
ISO_API int iso_error_set(iso_error *e, int code, const char *format, ...) ISO_PRINTF(3, 4);

/* Puts "prefix" before the text already in *e, for example the file it happened in; returns e->code (0 when e is NULL). */
ISO_API int iso_error_prefix(iso_error *e, const char *format, ...) ISO_PRINTF(2, 3);

/* Called when an invariant of the library is broken (never for bad input): a fault of the library itself. */
typedef void (*iso_assert_handler)(const char *condition, const char *file, int line);

/* Installs a handler, NULL for the default, which writes one line to standard error and aborts; returns the one before. A host
 * that must not die (a JVM) installs its own: it may leave by longjmp; if it returns, the process aborts. Thread: any. */
ISO_API iso_assert_handler iso_assert_set_handler(iso_assert_handler handler);

#endif
