/* SPDX-License-Identifier: Apache-2.0
 * Inside the local engine: what its files share. */
#ifndef ISO_ENGINE_LOCAL_INSIDE_H
#define ISO_ENGINE_LOCAL_INSIDE_H

#include <pthread.h>
#include <stdatomic.h>

#include "engine/local/bell.h"
#include "engine/local/local.h"
#include "engine/local/need.h"

#define INBOX_SLOTS 16u /* a power of two; more is never under way, a frame beyond is dropped */
#define PATIENCE_NS 300000 /* before a thread sleeps: about a unit of a small network */
#define LOCK_LOOKS 500u
#define SLICES_PER_WORKER 2u
#define SLICE_VALUES_MIN 4096u /* smaller slices cost more in hand-over than they share out */
#define NOTES_BYTES (4u << 20)
#define NOTES_MIN 16u
#define NEWS_MAX 4u /* weights and differences that a worker has heard of and not taken yet */
#define NOTE_RANGES 2u /* of units in a note: what a node does of a small batch; more take more notes */

/* Bulk data that travels by reference. */
typedef struct parcel {
    struct parcel *next;       /* of all; under the lock */
    struct parcel *next_taken; /* of the answers that wait for their merge */
    atomic_uint holders;       /* 0: free */
    size_t room, bytes;
    iso_payload payload;
    uint64_t round;   /* weights, differences: they lead to the weights after so many rounds */
    uint32_t node;    /* a taken answer's, */
    uint64_t samples; /* and its weight */
    unsigned char *data;
} parcel;

/* A frame on its way to a worker, with the weights that work is to be done against, or what it brings. */
typedef struct slot {
    iso_frame frame;
    const float *weights;
    parcel *bulk; /* held */
} slot;

typedef struct worker {
    struct iso_local *local;
    uint32_t id;
    pthread_t thread;
    bool started;

    /* inbox: one producer (whoever holds the lock), one consumer (the worker's thread) */
    slot inbox[INBOX_SLOTS];
    _Alignas(64) atomic_uint head; /* next to be taken */
    _Alignas(64) atomic_uint tail; /* next to be filled */
    iso_bell bell;
    bool have_bell;

    /* under the lock */
    uint32_t work_sent;
    uint32_t buffer; /* index of the weights of the last work sent */
    int64_t update_ns; /* in slices of the update of the round that runs */

    /* the calling thread's: ns without a core, between the last two looks and in all */
    uint64_t waited, waited_seen;

    /* written by the thread, read by anyone */
    _Alignas(64) atomic_uint work_done; /* work frames it is through with */
    atomic_bool gone;                   /* the thread has ended */
    atomic_bool away;                   /* it takes no part for now */
    atomic_bool away_wanted;            /* written by the calling thread */
    atomic_int kernel_thread;           /* its number; 0: not begun */

    /* the thread's own; sum, kept_count and dirty pass to the update while no work is out */
    _Alignas(64) iso_worker *core;
    void *core_memory;
    iso_effects effects;
    iso_feeder feeder;
    void *feeder_memory, *pass_memory;
    iso_pass *pass;
    const float *weights; /* of the work taken last */
    iso_replica *replica; /* weights of its own; NULL: the coordinator's are shared */
    void *replica_memory, *step_pass_memory;
    iso_pass *step_pass; /* for local steps; NULL: they are too small for one */
    struct news {
        parcel *parcel;
        bool full;
    } news[NEWS_MAX];
    uint32_t news_count;
    uint32_t session;   /* of the replica */
    uint32_t epoch;     /* of the samples */
    uint32_t cut_units; /* the order ends at the first border behind so many */
    uint64_t pulsed;    /* steps at the last PULSE */
    bool exact;         /* the answer goes with payload exact */
    int64_t *sum;         /* [P'] */
    unsigned char *kept;  /* kept_capacity blocks */
    uint32_t kept_count;
    bool dirty; /* the sum may hold something */
    bool cancelled;
    double slowdown;   /* 1: full speed; 4: three quarters of the time asleep */
    double debt_ns;    /* sleep not yet slept */
    uint64_t orders;   /* for planted faults */
    iso_compute order; /* to be run next, when have_order */
    bool have_order;
    int64_t wake_at;
    bool over;
} worker;

/* The optimiser's step of one round, cut into slices. Filled under the lock. A thread looks for a slice that nobody has taken from
 * its own share on, so that the same weights and momentum stay in the same core's cache from round to round. */
typedef struct update_job {
    iso_update what;
    const float *from;             /* copy the slice from here first; NULL: in place */
    uint64_t *order, *begin, *end; /* [slices] */
    int64_t **sum;                 /* [workers] */
    const void **kept;             /* [kept_capacity] */
    uint32_t buffer;               /* current after the step */
    iso_merge_step step;           /* of a merge */
    uint32_t open;                 /* slices of a merge that are not done; under the lock */
    atomic_bool *taken;            /* [slices]; false, with release, is what publishes a slice and all that is above */
    _Alignas(64) atomic_uint left; /* slices not yet taken; counted up before they are published */
    atomic_uint count;
} update_job;

/* How many workers run: the calling thread's own. */
typedef struct balance {
    bool on;
    int64_t look_at, looked_at;
    uint64_t idle_seen;      /* ns of all cores, as the kernel counts */
    uint32_t crowded, roomy; /* looks in a row */
    uint32_t unchanged;      /* looks since a worker went or came */
    uint32_t looks_to_try;
    bool came; /* the last one came */
} balance;

struct iso_local {
    iso_local_config config;
    iso_core_config core;
    const iso_alloc *alloc;
    size_t values;
    uint32_t states;
    iso_plan plan;
    bool replicas; /* workers have weights of their own */
    bool deferred; /* dense gradients are taken in the update */
    uint32_t kept_capacity;
    size_t kept_bytes;
    int64_t patience; /* ns that a thread waits before it sleeps */

    worker *worker; /* [workers] */
    float **buffer; /* [workers + 1], made when needed; buffer[0] always */
    uint32_t current;
    float *state[ISO_STATES_MAX];
    update_job update;
    iso_merger *merger; /* with replicas: the weights, and how answers join them */
    void *merger_memory;

    pthread_mutex_t lock; /* the coordinator and all that its effects touch */
    bool have_lock;
    void *coordinator_memory;
    iso_coordinator *coordinator;
    iso_effects effects;
    bool ended; /* DONE or FAILED was seen */
    iso_error error;
    parcel *parcels, *arriving; /* all; the answer in the event that is stepped */
    parcel *taken, **taken_last; /* answers that wait for their merge */
    parcel *full, *down; /* the last full weights, and what the last merge changed; held */

    iso_snapshot *snapshot;
    float *best;
    atomic_bool snapshot_busy, best_busy, checkpoint_missed;

    /* notes: one producer (whoever holds the lock), one consumer (the calling thread) */
    unsigned char *notes;
    size_t note_bytes;
    uint32_t note_count;
    _Alignas(64) atomic_uint note_head;
    _Alignas(64) atomic_uint note_tail;

    iso_bell bell; /* the calling thread's */
    bool have_bell;
    bool stop_wanted; /* the calling thread's own */
    balance balance;
    _Alignas(64) atomic_llong wake_at, waiting_until;
    atomic_bool over; /* threads end; computing stops between units */
    atomic_uint alive;
};

/* ---- coordinator.c ------------------------------------------------------------------------------------- */

/* With the lock held: one event of the coordinator, its effects executed. now is set here. */
void iso_local_step(iso_local *l, const iso_event *event);
void iso_local_lock(iso_local *l);
void iso_local_unlock(iso_local *l);
/* With the lock held: copies the border state into the snapshot. */
void iso_local_fill_snapshot(iso_local *l);
/* With the lock held: the run ends with an error of the engine's own. */
void iso_local_fail(iso_local *l, int code, const char *text);

/* ---- worker.c ------------------------------------------------------------------------------------------ */

void *iso_local_worker_main(void *context);
/* A core for a new life of the worker. */
void iso_local_worker_core(worker *w);
/* Takes the first frame of the inbox, which there is, and steps the worker's core with it. */
void iso_local_worker_frame(worker *w);
/* The first frame of the inbox, or NULL; then _taken. */
const slot *iso_local_inbox_first(worker *w);
void iso_local_inbox_taken(worker *w);
/* With the lock held: false when the inbox is full. bulk (may be NULL) is held until the frame is taken. */
bool iso_local_inbox_put(worker *w, const iso_frame *frame, const float *weights, parcel *bulk);
/* One event of the worker's core and its effects. */
void iso_local_worker_step(worker *w, iso_event *event);

/* ---- balance.c: the calling thread's -------------------------------------------------------------------- */

void iso_local_balance_init(iso_local *l);
/* Looks, if it is time to, and sends workers away or calls them back. Returns when it wants to look again. */
int64_t iso_local_balance(iso_local *l, int64_t now);

/* ---- compute.c ----------------------------------------------------------------------------------------- */

/* Units of an order into *totals, busy time included. */
void iso_local_compute(worker *w, const iso_compute *c, iso_totals *totals);
/* A throttled worker sleeps for its share of the time. */
void iso_local_nap(worker *w, int64_t busy_ns);
/* Takes and runs one slice of the update on worker w's thread; false when there is none. */
bool iso_local_update_slice(const worker *w, iso_event *done);
/* Denormal numbers become 0 in this thread. */
void iso_local_flush_denormals(void);

/* ---- parcel.c ------------------------------------------------------------------------------------------ */

/* With the lock held: a parcel of so many bytes, held once; NULL: no memory. */
parcel *iso_local_parcel(iso_local *l, size_t bytes);
void iso_local_parcel_hold(parcel *p);
/* NULL is fine. */
void iso_local_parcel_drop(parcel *p);
void iso_local_parcels_free(iso_local *l);

/* ---- merge.c: with the lock held, but _slice ------------------------------------------------------------ */

int iso_local_merger_init(iso_local *l, iso_error *e);
void iso_local_merger_fini(iso_local *l);
/* The arriving answer waits for its merge. */
void iso_local_taken(iso_local *l, const iso_take *t);
/* The answers that an update is about go into the sums; then its slices are added, run on any threads, and each is told of. */
void iso_local_merge_begin(iso_local *l, const iso_update_order *o);
void iso_local_merge_add(iso_local *l, const iso_update_order *o, uint32_t i);
void iso_local_merge_slice(iso_local *l, uint32_t slice, int32_t *bad_layer);
void iso_local_merge_done(iso_local *l);
/* What a WEIGHTS or DELTA frame brings; NULL: no memory, the run has failed. */
parcel *iso_local_news(iso_local *l, const iso_frame *frame);
/* States of the last border [P] published. */
void iso_local_publish_states(const iso_local *l, float *const *out);
/* Weights and states come from a snapshot. */
void iso_local_adopt(iso_local *l, const iso_snapshot *s);

/* ---- replica.c: on the worker's thread ------------------------------------------------------------------- */

int iso_local_replica_init(worker *w, iso_error *e);
void iso_local_replica_fini(worker *w);
/* A training order: totals and units of *done. */
void iso_local_replica_train(worker *w, const iso_compute *c, iso_event *done);
/* The answer, held once; NULL: the run has failed. */
parcel *iso_local_replica_answer(worker *w);
/* Takes over the hold of what a frame has brought; the core says later whether it is used. */
void iso_local_replica_heard(worker *w, parcel *news, iso_frame_kind kind);
/* ADOPT (full) or APPLY. */
void iso_local_replica_news(worker *w, uint64_t round, bool full);
/* After a step of the worker's core. */
void iso_local_replica_session(worker *w);

static inline bool iso_local_update_waits(iso_local *l)
{
    return atomic_load_explicit(&l->update.left, memory_order_acquire) != 0;
}

#endif
