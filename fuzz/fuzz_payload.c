/* SPDX-License-Identifier: Apache-2.0
 * Fuzz target: bytes as answers and as results of a merge. Byte 0 says how (payload, way, what is done with it), the rest is the
 * payload, cut or filled with zeros to the right length when its high bit is set. Whatever comes: an error leaves weights as they
 * were, else all weights are finite and the replica has the merger's. */
#include <math.h>
#include <string.h>

#include "check.h"
#include "isochron/replica.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { MEMORY = 1 << 20, ROOM = 1 << 15 };

typedef struct world {
    iso_net *net;
    size_t parameters;
    iso_replica_config node;
    iso_merger_config coordinator;
    iso_replica *replica;
    iso_merger *merger;
} world;

static _Alignas(64) unsigned char replica_memory[MEMORY], merger_memory[MEMORY];
static const iso_optimizer optimizer = {ISO_SGD, 0.1, 0.9, 0, 0, 0, 0, false};
static const iso_schedule schedule = {.kind = ISO_CONSTANT};

/* 1,338 values: two blocks, the second one short. */
static void build(world *x)
{
    static iso_model model;
    static const char *const kinds[] = {"dense", "relu", "dense"};
    iso_error e;
    for (uint32_t i = 0; i < 3; i++)
        FUZZ_CHECK(iso_layer_spec_default(&model.layer[i], kinds[i], &e) == ISO_OK);
    model.layer[0].value[0] = 31;
    model.layer[2].value[0] = 5;
    model.count = 3;
    FUZZ_CHECK(iso_net_new(&x->net, &model, (iso_shape){37, 1, 1}, 5, ISO_ISA_AUTO, NULL, &e) == ISO_OK);
    x->parameters = iso_net_parameters(x->net);
}

static void open_world(world *x, bool gradient, bool carry, iso_payload down)
{
    iso_replica_way way = gradient ? ISO_WAY_GRADIENT : ISO_WAY_LOCAL;
    x->node = (iso_replica_config){.net = x->net, .optimizer = &optimizer, .schedule = &schedule, .way = way, .samples = 100,
                                   .total = 100, .unit = 16, .local_batch = 16, .monitor = true, .carry = carry};
    x->coordinator = (iso_merger_config){.net = x->net, .optimizer = &optimizer, .way = way, .down = down, .carry = carry};
    FUZZ_CHECK(iso_replica_bytes(&x->node) <= MEMORY && iso_merger_bytes(&x->coordinator) <= MEMORY);
    x->replica = iso_replica_init(&x->node, replica_memory);
    x->merger = iso_merger_init(&x->coordinator, merger_memory);
    for (size_t i = 0; i < x->parameters; i++)
        iso_merger_array(x->merger, 0)[i] = (float)i * 1e-4f;
    static uint8_t full[ROOM];
    iso_merger_full(x->merger, full);
    FUZZ_CHECK(iso_replica_adopt(x->replica, full, iso_merger_full_bytes(x->merger), NULL) == ISO_OK);
    FUZZ_CHECK(iso_replica_check(x->replica) == iso_merger_check(x->merger));
}

static void expect_finite(world *x)
{
    const float *w = iso_replica_weights(x->replica);
    for (size_t i = 0; i < iso_net_values(x->net); i++)
        FUZZ_CHECK(isfinite(w[i]));
}

/* As an answer: taken beside an honest one of zeros, or alone; then merged and applied. */
static void as_answer(world *x, iso_payload payload, const uint8_t *bytes, size_t count, bool beside)
{
    static uint8_t down[ROOM];
    static const uint8_t zeros[ROOM];
    iso_merge_step step = {0.1, 1};
    bool gradient = x->node.way == ISO_WAY_GRADIENT;
    int32_t bad;
    iso_merger_begin(x->merger, 64);
    if (beside)
        FUZZ_CHECK(iso_merger_take(x->merger, ISO_PAYLOAD_INT4, zeros, iso_payload_bytes(ISO_PAYLOAD_INT4, x->parameters), 16,
                                   NULL) == (x->node.carry ? ISO_E_STATE : ISO_OK));
    uint32_t before = iso_merger_check(x->merger), answers = iso_merger_answers(x->merger);
    int status = iso_merger_take(x->merger, payload, bytes, count, 48, NULL);
    FUZZ_CHECK(iso_merger_check(x->merger) == before && iso_merger_answers(x->merger) == answers + (status == ISO_OK));
    if (iso_merger_answers(x->merger) == 0)
        return;
    iso_payload kind = iso_merger_down(x->merger);
    size_t bytes_down = iso_merger_down_bytes(x->merger);
    FUZZ_CHECK(bytes_down <= ROOM);
    iso_merger_merge(x->merger, gradient ? &step : NULL, 0, x->parameters, down, &bad);
    iso_merger_end(x->merger);
    if (bad >= 0)
        return;
    FUZZ_CHECK(iso_replica_apply(x->replica, kind, down, bytes_down, NULL) == ISO_OK);
    FUZZ_CHECK(iso_replica_check(x->replica) == iso_merger_check(x->merger));
    expect_finite(x);
}

static void as_result(world *x, iso_payload payload, const uint8_t *bytes, size_t count, bool adopt)
{
    uint32_t before = iso_replica_check(x->replica);
    int status = adopt ? iso_replica_adopt(x->replica, bytes, count, NULL)
                       : iso_replica_apply(x->replica, payload, bytes, count, NULL);
    FUZZ_CHECK(status == ISO_OK || iso_replica_check(x->replica) == before);
    expect_finite(x);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static world x;
    static uint8_t fitted[ROOM];
    if (size == 0)
        return 0;
    if (!x.net)
        build(&x);
    uint8_t how = *data++;
    size--;
    iso_payload payload = (iso_payload)(how & 7); /* 5 to 7: there are none such */
    bool carry = (how & 48) == 48;
    open_world(&x, (how & 48) == 16, carry, (iso_payload)((how & 7) % ISO_PAYLOADS));
    if (how & 128) {
        size_t count = carry ? iso_merger_full_bytes(x.merger) : iso_payload_bytes(payload, x.parameters);
        memset(fitted, 0, count);
        memcpy(fitted, data, size < count ? size : count);
        data = fitted;
        size = count;
    }
    if (how & 8)
        as_result(&x, payload, data, size, how & 64);
    else
        as_answer(&x, payload, data, size, how & 64);
    return 0;
}
