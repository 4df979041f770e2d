/* SPDX-License-Identifier: Apache-2.0
 * Messages (words.h). */
#include "job/words.h"

#include <stdio.h>
#include <string.h>

#include "base/text.h"

const char *iso_job_show(char out[ISO_SHOW_BYTES], const char *text)
{
    size_t length = strlen(text), room = ISO_SHOW_BYTES - 6; /* two quotes, three dots, NUL */
    size_t shown = length < room ? length : room;
    while (shown < length && shown && ((unsigned char)text[shown] & 0xC0) == 0x80)
        shown--; /* do not cut inside a character */
    size_t at = 0;
    out[at++] = '\'';
    for (size_t i = 0; i < shown; i++) {
        unsigned char c = (unsigned char)text[i];
        out[at++] = c < 32 || c == 127 ? '?' : text[i];
    }
    snprintf(out + at, ISO_SHOW_BYTES - at, "%s'", shown < length ? "..." : "");
    return out;
}

int iso_job_unknown(iso_error *e, const char *of, const char *what, const char *word, const char *const *words,
                    size_t count)
{
    return iso_job_unknown_near(e, of, what, word, iso_nearest_word(word, words, count), words, count);
}

int iso_job_unknown_near(iso_error *e, const char *of, const char *what, const char *word, const char *near,
                         const char *const *words, size_t count)
{
    char shown[ISO_SHOW_BYTES], list[700], hint[100] = "";
    size_t at = 0;
    list[0] = 0;
    for (size_t i = 0; i < count && at < sizeof list - 80; i++)
        at += (size_t)snprintf(list + at, sizeof list - at, "%s%s", i ? ", " : "", words[i]);
    if (near)
        snprintf(hint, sizeof hint, "did you mean '%.60s'? ", near);
    iso_job_show(shown, word);
    return iso_error_set(e, ISO_E_JOB, "%s%sunknown %s %s; %sthere %s: %s", of, of[0] ? ": " : "", what, shown, hint,
                         count == 1 ? "is" : "are", count ? list : "none");
}
