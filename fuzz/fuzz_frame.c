/* SPDX-License-Identifier: Apache-2.0
 * Fuzz target: the bytes as frames that reach a coordinator and a worker, and as a saved state. First as they are: what
 * decodes must encode to the same bytes. Then one frame after the other with its crc mended, so that changed fields
 * and bodies get behind the codec: whatever peers say, both machines stay within their bounds, a pass is over only
 * when its units are counted, and no order reaches beyond the data. */
#include <string.h>

#include "base/bytes.h"
#include "base/crc32c.h"
#include "check.h"
#include "isochron/core.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { NODES = 4, SAMPLES = 90, EFFECTS = 128, MEMORY = 1 << 16, FRAMES_MAX = 200 };

typedef struct world {
    iso_core_config config;
    iso_coordinator *c;
    iso_worker *w;
    iso_effects fx, worker_fx;
    iso_effect item[EFFECTS], worker_item[ISO_WORKER_EFFECTS_MAX];
    int64_t now;
} world;

static _Alignas(64) unsigned char memory[MEMORY], worker_memory[4096];
static world the_world;

static void check_order(const iso_compute *c)
{
    uint64_t samples = 0, first;
    for (uint32_t i = 0; i < c->units; i++) {
        uint32_t count = iso_compute_unit(c, i, &first);
        FUZZ_CHECK(count > 0 && count <= ISO_UNIT_MAX && first + count <= c->samples);
        samples += count;
    }
    FUZZ_CHECK(c->units > 0 && samples == iso_compute_samples(c));
}

static void check_view(const world *x)
{
    iso_coordinator_view v;
    iso_coordinator_look(x->c, &v);
    FUZZ_CHECK(v.units_counted <= v.units && v.units_free + v.units_counted <= v.units);
    FUZZ_CHECK(v.round <= v.rounds && v.samples_done <= SAMPLES * 2 && v.nodes <= NODES);
}

static void coordinator(world *x, iso_event ev)
{
    ev.now = x->now += 1000;
    FUZZ_CHECK(iso_coordinator_step(x->c, &ev, &x->fx) == ISO_OK);
    check_view(x);
    uint64_t orders[4];
    uint32_t count = 0;
    for (uint32_t i = 0; i < x->fx.count; i++)
        if (x->fx.item[i].kind == ISO_EFFECT_UPDATE)
            orders[count++] = x->fx.item[i].update.order;
    for (uint32_t i = 0; i < count; i++)
        coordinator(x, (iso_event){.kind = ISO_EVENT_ORDER_DONE, .order = orders[i], .totals = {.bad_layer = -1}});
}

static void worker(world *x, iso_event ev)
{
    iso_compute order = {.units = 0};
    ev.now = x->now += 1000;
    FUZZ_CHECK(iso_worker_step(x->w, &ev, &x->worker_fx) == ISO_OK);
    for (uint32_t i = 0; i < x->worker_fx.count; i++)
        if (x->worker_fx.item[i].kind == ISO_EFFECT_COMPUTE)
            order = x->worker_fx.item[i].compute;
    if (order.units == 0)
        return;
    check_order(&order);
    iso_totals totals = {.samples = iso_compute_samples(&order), .bad_layer = -1, .busy = 7};
    worker(x, (iso_event){.kind = ISO_EVENT_ORDER_DONE, .order = order.order, .totals = totals});
}

static void begin(world *x, bool shared)
{
    memset(x, 0, sizeof *x);
    iso_core_config *c = &x->config;
    iso_core_config_default(c);
    c->samples = SAMPLES;
    c->validation = 20;
    c->batch = 40;
    c->unit = 10;
    c->epochs = 2;
    c->values = 64;
    c->optimizer.learning_rate = 0.1;
    c->nodes_max = NODES;
    c->slices = 2;
    c->depth = 2;
    c->audit = true;
    c->resend = 100000;
    c->sums_in_place = c->shared_weights = shared;
    FUZZ_CHECK(iso_coordinator_bytes(c) <= sizeof memory && iso_coordinator_effects_max(c) <= EFFECTS);
    FUZZ_CHECK(iso_worker_bytes() <= sizeof worker_memory);
    x->fx = (iso_effects){.item = x->item, .capacity = EFFECTS};
    x->worker_fx = (iso_effects){.item = x->worker_item, .capacity = ISO_WORKER_EFFECTS_MAX};
    x->c = iso_coordinator_init(c, 1, memory);
    iso_worker_config w = {.life = 1, .samples = SAMPLES, .validation = 20, .shared_weights = shared, .resend = 100000};
    x->w = iso_worker_init(&w, worker_memory);
    coordinator(x, (iso_event){.kind = ISO_EVENT_START});
    worker(x, (iso_event){.kind = ISO_EVENT_START});
}

static void raw(const uint8_t *data, size_t size)
{
    iso_frame f;
    iso_error e = {.text = ""};
    uint8_t *again = malloc(size + 1);
    FUZZ_CHECK(again);
    int status = iso_frame_decode(&f, data, size, &e);
    FUZZ_CHECK(status == ISO_OK || status == ISO_E_PROTOCOL || status == ISO_E_UNSUPPORTED);
    if (status == ISO_OK)
        FUZZ_CHECK(iso_frame_encode(&f, again, size) == size && memcmp(again, data, size) == 0);
    else
        FUZZ_CHECK(strncmp(e.text, "frame", 5) == 0);
    free(again);
}

/* The next frame of the input with magic, version and crc set right; 0 when there is none. */
static size_t mended(const uint8_t *data, size_t size, uint8_t *out, size_t capacity)
{
    if (size < ISO_FRAME_HEADER)
        return 0;
    memcpy(out, data, ISO_FRAME_HEADER);
    iso_store_u32(out, 0x464F5349);
    iso_store_u16(out + 4, ISO_FRAME_VERSION);
    size_t span = iso_frame_span(out);
    if (span == 0 || span > size || span > capacity)
        return 0;
    memcpy(out + ISO_FRAME_HEADER, data + ISO_FRAME_HEADER, span - ISO_FRAME_HEADER);
    uint32_t crc = iso_crc32c(iso_crc32c(0, out, 60), out + ISO_FRAME_HEADER, span - ISO_FRAME_HEADER);
    iso_store_u32(out + 60, crc);
    return span;
}

static void story(const uint8_t *data, size_t size, bool shared)
{
    static uint8_t bytes[ISO_FRAME_HEADER + ISO_BODY_MAX + 4096];
    world *x = &the_world;
    begin(x, shared);
    for (int n = 0; n < FRAMES_MAX; n++) {
        iso_frame f;
        size_t span = mended(data, size, bytes, sizeof bytes);
        if (span == 0)
            break;
        data += span;
        size -= span;
        if (iso_frame_decode(&f, bytes, span, NULL) != ISO_OK)
            continue;
        if (f.to == ISO_COORDINATOR)
            coordinator(x, (iso_event){.kind = ISO_EVENT_FRAME, .frame = &f});
        else
            worker(x, (iso_event){.kind = ISO_EVENT_FRAME, .frame = &f});
        if (n % 8 == 7) {
            x->now += 1000000000;
            coordinator(x, (iso_event){.kind = ISO_EVENT_TIMER});
            worker(x, (iso_event){.kind = ISO_EVENT_TIMER});
        }
    }
    coordinator(x, (iso_event){.kind = ISO_EVENT_STOP});
}

static void state(const uint8_t *data, size_t size)
{
    iso_saved saved;
    if (size < 8)
        return;
    uint8_t *copy = malloc(size);
    FUZZ_CHECK(copy);
    memcpy(copy, data, size);
    iso_store_u32(copy + size - 4, iso_crc32c(0, copy, size - 4));
    int status = iso_saved_read(&saved, copy, size, NULL);
    FUZZ_CHECK(status == ISO_OK || status == ISO_E_FORMAT);
    if (status == ISO_OK)
        FUZZ_CHECK(saved.samples_done <= saved.samples * saved.epochs && saved.cursor <= saved.samples);
    begin(&the_world, true);
    the_world.c = iso_coordinator_init(&the_world.config, 1, memory);
    if (iso_coordinator_resume(the_world.c, copy, size, NULL) == ISO_OK)
        coordinator(&the_world, (iso_event){.kind = ISO_EVENT_START});
    free(copy);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    raw(data, size);
    story(data, size, true);
    story(data, size, false);
    state(data, size);
    return 0;
}
