/* SPDX-License-Identifier: Apache-2.0
 * trace.json: who worked and who waited, as complete events of the Chrome trace format (chrome://tracing, Perfetto). */
#include <inttypes.h>

#include "engine/simulate/inside.h"

#define TRACE_BYTES_MAX ((size_t)512 << 20)

static void begin(iso_sim *s)
{
    iso_buffer_init(&s->trace, s->alloc, TRACE_BYTES_MAX);
    iso_buffer_text(&s->trace, "{\"displayTimeUnit\":\"ms\",\"traceEvents\":[\n");
    iso_buffer_text(&s->trace, "{\"ph\":\"M\",\"pid\":1,\"name\":\"process_name\",\"args\":{\"name\":\"isochron simulate\"}}");
    for (uint32_t i = 0; i <= s->count; i++) {
        iso_buffer_format(&s->trace, ",\n{\"ph\":\"M\",\"pid\":1,\"tid\":%" PRIu32 ",\"name\":\"thread_name\",\"args\":{\"name\":", i);
        iso_buffer_json(&s->trace, i < s->count ? s->node[i].machine->name : "coordinator");
        iso_buffer_text(&s->trace, "}}");
    }
}

void iso_sim_trace(iso_sim *s, uint32_t line, const char *name, int64_t from, int64_t to, uint64_t samples)
{
    if (!s->config.options->trace || s->trace.failed || (from == to && line < s->count && name[0] == 'w'))
        return;
    if (!s->trace.size)
        begin(s);
    iso_buffer_format(&s->trace, ",\n{\"ph\":\"X\",\"pid\":1,\"tid\":%" PRIu32 ",\"name\":\"%s\",\"ts\":%" PRId64 ".%03d", line, name,
                      from / 1000, (int)(from % 1000));
    iso_buffer_format(&s->trace, ",\"dur\":%" PRId64 ".%03d", (to - from) / 1000, (int)((to - from) % 1000));
    if (samples)
        iso_buffer_format(&s->trace, ",\"args\":{\"samples\":%" PRIu64 "}", samples);
    iso_buffer_text(&s->trace, "}");
}

const iso_buffer *iso_sim_timeline(iso_sim *s)
{
    if (!s->config.options->trace)
        return NULL;
    if (!s->trace.size)
        begin(s);
    iso_buffer_text(&s->trace, "\n]}\n");
    return &s->trace;
}
