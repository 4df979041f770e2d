/* SPDX-License-Identifier: Apache-2.0
 * Frames on their way (inside.h). Every frame goes through its bytes: encoded where it leaves, decoded before it arrives; what
 * it carries does so on links that lose, repeat or reorder, in chunks that iso_assembly gathers on the other side. */
#include <string.h>

#include "base/rng.h"
#include "engine/simulate/inside.h"

#define REORDER_LATENCIES 20 /* a reordered packet comes up to so many latencies late, */
#define REORDER_NS 1000000   /* and this */

typedef struct draw {
    bool lost, twice;
    int64_t late[2];
} draw;

static bool chance(iso_rng *r, iso_ratio own, iso_ratio drawn)
{
    bool first = iso_rng_chance(r, own.numerator, own.denominator);
    return iso_rng_chance(r, drawn.numerator, drawn.denominator) || first;
}

/* What becomes of one packet. */
static draw fate_of(iso_sim *s, const iso_link *l)
{
    const iso_ratio never = {0, 1};
    iso_rng r = iso_rng_make(&(iso_rng_key){
        .seed = s->seed, .purpose = ISO_PURPOSE_FAULT, .epoch = 1, .index = s->packets++ & ISO_RNG_INDEX_MAX});
    draw d = {.lost = chance(&r, l->loss, s->healed ? never : s->loss)};
    d.twice = chance(&r, l->duplicate, s->healed ? never : s->duplicate);
    for (int i = 0; i < 2; i++)
        if (chance(&r, l->reorder, s->healed ? never : s->reorder))
            d.late[i] = iso_rng_between(&r, 0, l->latency * REORDER_LATENCIES + REORDER_NS);
    return d;
}

static uint32_t take_message(iso_sim *s)
{
    if (s->first_free == UINT32_MAX) {
        uint32_t more = s->messages ? s->messages * 2 : 64;
        sim_message *m = iso_new(s->alloc, more, sizeof *m);
        if (!m) {
            iso_sim_no_memory(s);
            return UINT32_MAX;
        }
        if (s->messages)
            memcpy(m, s->message, s->messages * sizeof *m);
        for (uint32_t i = s->messages; i < more; i++)
            m[i].frame.round = i + 1 < more ? i + 1 : UINT32_MAX;
        iso_free(s->alloc, s->message);
        s->first_free = s->messages;
        s->message = m;
        s->messages = more;
    }
    uint32_t index = s->first_free;
    s->first_free = (uint32_t)s->message[index].frame.round;
    return index;
}

/* The frame as the other side reads it. */
static bool through_bytes(iso_sim *s, iso_frame *f, const void *bulk)
{
    unsigned char stack[ISO_FRAME_HEADER + ISO_BODY_MAX], *bytes = stack;
    size_t size = iso_frame_bytes(f);
    if (size > sizeof stack && !(bytes = iso_new_raw(s->alloc, size, 1))) {
        iso_sim_no_memory(s);
        return false;
    }
    iso_error e = {0};
    bool good = iso_frame_encode(f, bytes, size) == size && !iso_frame_decode(f, bytes, size, &e);
    if (!good)
        iso_sim_fail(s, ISO_E_WRONG, "a %s frame does not survive its bytes: %s", iso_frame_name(f->kind), e.text);
    else if (bulk && f->chunk_bytes && memcmp(f->bulk, bulk, f->chunk_bytes) != 0)
        iso_sim_fail(s, ISO_E_WRONG, "a chunk of a %s frame changed on its way", iso_frame_name(f->kind));
    f->bulk = bulk;
    if (bytes != stack)
        iso_free(s->alloc, bytes);
    return good && !s->ended;
}

/* Its place becomes free; what it carries goes to the caller. */
static sim_message give_back(iso_sim *s, uint32_t index)
{
    sim_message m = s->message[index];
    s->message[index].frame.round = s->first_free;
    s->message[index].blob = NULL;
    s->first_free = index;
    return m;
}

void iso_sim_pass(iso_sim *s, uint32_t index, int64_t first)
{
    sim_message *m = &s->message[index];
    sim_node *n = &s->node[m->node];
    m->life = n->life;
    if (m->dead || !(m->up || n->up)) {
        sim_message gone = give_back(s, index);
        iso_sim_drop(s, &gone.blob);
        return;
    }
    double rate = m->up ? s->config.options->cluster->bandwidth : n->machine->link.bandwidth;
    sim_passage there = sim_wire_carry(m->up ? &s->wire_in : &n->wire_down, rate, (sim_passage){first, m->last}, (double)m->cost);
    iso_sim_at(s, there.last, SIM_MESSAGE, m->node, index, m->up);
}

/* A packet under way to the second wire, by a way that takes `latency`. A machine's own wire is fed by one other alone: where
 * nothing overtakes and nobody goes, packets come there in the order in which they were sent, and their turn is known now. */
static void put_off(iso_sim *s, const sim_message *m, sim_passage left, int64_t latency)
{
    uint32_t index = take_message(s);
    if (index == UINT32_MAX)
        return;
    s->message[index] = *m;
    iso_sim_hold(m->blob);
    s->message[index].last = left.last + latency;
    if (m->up || s->core.resend)
        iso_sim_at(s, left.first + latency, SIM_PACKET, m->node, index, m->up);
    else
        iso_sim_pass(s, index, left.first + latency);
}

/* The canary's loss: the first work of the second round, and all that would tell the same node of it later. */
static bool planted_loss(iso_sim *s, uint32_t node, const iso_frame *f)
{
    if (s->config.options->canary != ISO_CANARY_LOST_WAKEUP || f->kind != ISO_FRAME_WORK || s->round < 1)
        return false;
    if (!s->dropped)
        s->deaf = node;
    s->dropped = true;
    return s->deaf == node;
}

/* A packet is lost, repeated or held up between the wires: a lost one has taken the sender's wire, a repeated one takes the
 * other one twice. */
static void send_packet(iso_sim *s, sim_message *m)
{
    sim_node *n = &s->node[m->node];
    const iso_link *l = &n->machine->link;
    const iso_frame *f = &m->frame;
    draw d = s->lossy || (s->config.options->draw_faults && !s->healed) ? fate_of(s, l) : (draw){.lost = false};
    sim_passage now = {s->now, s->now};
    sim_passage left = m->up ? sim_wire_carry(&n->wire_up, l->bandwidth, now, (double)m->cost)
                             : sim_wire_carry(&s->wire_out, s->config.options->cluster->bandwidth, now, (double)m->cost);
    m->sent = left.last;
    *(m->up ? &s->bytes_up : &s->bytes_down) += m->cost;
    *(m->up ? &s->sent_up : &s->sent_down) +=
        ISO_FRAME_HEADER + f->body_bytes + (m->whole && m->blob ? m->blob->bytes : f->chunk_bytes);
    if (d.lost || planted_loss(s, m->node, f))
        return;
    for (int i = 0; i <= d.twice; i++)
        put_off(s, m, left, l->latency + d.late[i]);
}

void iso_sim_send(iso_sim *s, uint32_t node, bool up, const iso_frame *frame, sim_blob *blob)
{
    sim_message m = {.frame = *frame, .blob = blob, .node = node, .up = up};
    uint64_t head = ISO_FRAME_HEADER + frame->body_bytes;
    m.whole = !blob || !blob->bytes || !(s->lossy || s->config.options->draw_faults);
    m.frame.bulk = NULL;
    if (m.whole) {
        m.cost = head + (blob ? blob->cost : 0);
        if (through_bytes(s, &m.frame, NULL))
            send_packet(s, &m);
        return;
    }
    for (uint32_t i = 0; !s->ended && iso_frame_cut(&m.frame, blob->data, blob->bytes, SIM_STRIDE, i); i++) {
        double part = (double)m.frame.chunk_bytes / (double)blob->bytes;
        m.cost = head + (uint64_t)((double)blob->cost * part + 0.5);
        if (through_bytes(s, &m.frame, m.frame.bulk))
            send_packet(s, &m);
    }
}

/* ---- arriving ------------------------------------------------------------------------------------------ */

static sim_gather *gather_of(sim_node *n, uint32_t kind)
{
    return kind == ISO_FRAME_SUM       ? &n->up_gather
           : kind == ISO_FRAME_WEIGHTS ? &n->weights_gather
           : kind == ISO_FRAME_DELTA   ? &n->delta_gather
                                       : NULL;
}

static bool gather_ready(iso_sim *s, sim_gather *g, size_t bytes)
{
    if (g->data && g->assembly.bytes == bytes)
        return true;
    iso_sim_gather_fini(s, g);
    g->data = iso_new_raw(s->alloc, bytes, 1);
    g->seen = iso_new(s->alloc, iso_assembly_words(bytes, SIM_STRIDE), sizeof *g->seen);
    if (!g->data || !g->seen) {
        iso_sim_no_memory(s);
        return false;
    }
    iso_assembly_init(&g->assembly, g->data, bytes, SIM_STRIDE, g->seen);
    return true;
}

/* Takes a chunk; true when the blob is whole now, and then it is what was sent. */
static bool gathered(iso_sim *s, sim_gather *g, const sim_message *m)
{
    if (!gather_ready(s, g, m->blob->bytes))
        return false;
    iso_gather got = iso_assembly_add(&g->assembly, &m->frame);
    if (got == ISO_GATHER_BAD)
        iso_sim_fail(s, ISO_E_WRONG, "a chunk of a %s frame does not fit", iso_frame_name(m->frame.kind));
    if (got != ISO_GATHER_COMPLETE)
        return false;
    if (memcmp(g->data, m->blob->data, m->blob->bytes) != 0) {
        iso_sim_fail(s, ISO_E_WRONG, "a %s frame was not put together as it was sent", iso_frame_name(m->frame.kind));
        return false;
    }
    return true;
}

/* Keeps what came with the frame where the effects will look for it; of news the oldest goes. */
static void keep(iso_sim *s, sim_node *n, uint32_t kind, sim_blob *blob)
{
    sim_blob **place = &n->arrived;
    for (uint32_t i = 0; kind != ISO_FRAME_SUM && i < SIM_NEWS; i++) {
        if (i == 0)
            place = &n->news[0];
        if (!n->news[i] || (n->news[i]->round == blob->round && n->news[i]->full == blob->full)) {
            place = &n->news[i];
            break;
        }
        if (n->news[i]->round < (*place)->round)
            place = &n->news[i];
    }
    if (*place && kind != ISO_FRAME_SUM && (*place)->round > blob->round)
        return;
    iso_sim_drop(s, place);
    *place = iso_sim_hold(blob);
}

void iso_sim_unplug(iso_sim *s, uint32_t node)
{
    sim_node *n = &s->node[node];
    for (uint32_t i = 0; n->wire_up.busy_until > s->now && i < s->messages; i++)
        s->message[i].dead |= s->message[i].up && s->message[i].node == node && s->message[i].sent > s->now;
    n->wire_up.busy_until = n->wire_down.busy_until = s->now;
}

void iso_sim_arrive(iso_sim *s, uint32_t index)
{
    sim_message m = give_back(s, index);
    uint32_t node = m.node;
    bool up = m.up;
    sim_node *n = &s->node[node];
    sim_gather *g = m.blob ? gather_of(n, m.frame.kind) : NULL;
    bool there = up ? !m.dead : n->up && n->life == m.life, complete = there && (!g || m.whole || gathered(s, g, &m));
    if (complete && !s->ended) {
        iso_event event = {.kind = ISO_EVENT_FRAME, .frame = &m.frame};
        if (g)
            keep(s, n, m.frame.kind, m.blob);
        m.frame.bulk = NULL;
        if (up)
            iso_sim_step(s, &event);
        else
            iso_sim_node_step(s, node, &event);
    }
    iso_sim_drop(s, &m.blob);
}

void iso_sim_gather_fini(iso_sim *s, sim_gather *g)
{
    iso_free(s->alloc, g->data);
    iso_free(s->alloc, g->seen);
    *g = (sim_gather){.data = NULL};
}

void iso_sim_network_fini(iso_sim *s)
{
    for (uint32_t i = 0; i < s->messages; i++)
        iso_sim_drop(s, &s->message[i].blob);
    iso_free(s->alloc, s->message);
}
