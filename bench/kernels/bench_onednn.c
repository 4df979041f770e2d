/* SPDX-License-Identifier: Apache-2.0
 * Convolution and inner product of oneDNN on the shapes of bench_kernels.c. oneDNN chooses layouts and algorithm (tag any); what it
 * would cost to bring data into them is not counted. ReLU and pooling, which our forward kernels have in them, are not either.
 */
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include <oneapi/dnnl/dnnl.h>

#include "bench_onednn.h"

enum { OPERANDS_MAX = 4 };

static void want(dnnl_status_t status, const char *call)
{
    if (status != dnnl_success) {
        fprintf(stderr, "bench_kernels: %s: oneDNN's status %d\n", call, (int)status);
        exit(1);
    }
}
#define WANT(call) want((call), #call)

static dnnl_engine_t engine(void)
{
    static dnnl_engine_t cpu;
    if (cpu == NULL)
        WANT(dnnl_engine_create(&cpu, dnnl_cpu, 0));
    return cpu;
}

static dnnl_memory_desc_t any(int rank, const dnnl_dim_t *dim)
{
    dnnl_memory_desc_t d;
    WANT(dnnl_memory_desc_init_by_tag(&d, rank, dim, dnnl_f32, dnnl_format_tag_any));
    return d;
}

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

/* One argument: its index in oneDNN's list and the query that tells which layout was chosen. */
typedef struct onednn_operand {
    int name;
    dnnl_query_t layout;
} onednn_operand;

/* Shortest time of one execution, in seconds, over rounds of at least a millisecond. */
static double shortest(dnnl_primitive_t primitive, const dnnl_exec_arg_t *list, int count)
{
    dnnl_stream_t stream;
    WANT(dnnl_stream_create(&stream, engine(), dnnl_stream_default_flags));
    double best = 1e9, used = 0;
    for (size_t runs = 1; used < 0.4;) {
        double start = now();
        for (size_t i = 0; i < runs; i++)
            WANT(dnnl_primitive_execute(primitive, stream, count, list));
        WANT(dnnl_stream_wait(stream));
        double took = now() - start;
        used += took;
        if (took < 1e-3)
            runs *= 2;
        else if (took / (double)runs < best)
            best = took / (double)runs;
    }
    WANT(dnnl_stream_destroy(stream));
    return best;
}

static double time_of(const_dnnl_primitive_desc_t pd, const onednn_operand *operand, int count)
{
    dnnl_exec_arg_t list[OPERANDS_MAX];
    dnnl_primitive_t primitive;
    for (int i = 0; i < count; i++) {
        const dnnl_memory_desc_t *layout = dnnl_primitive_desc_query_md(pd, operand[i].layout, 0);
        void *bytes;
        list[i].arg = operand[i].name;
        WANT(dnnl_memory_create(&list[i].memory, layout, engine(), DNNL_MEMORY_ALLOCATE));
        WANT(dnnl_memory_get_data_handle(list[i].memory, &bytes));
        for (size_t at = 0; at < dnnl_memory_desc_get_size(layout) / sizeof(float); at++)
            ((float *)bytes)[at] = (float)(at % 17) * 0.0625f - 0.5f;
    }
    WANT(dnnl_primitive_create(&primitive, pd));
    double seconds = shortest(primitive, list, count);
    WANT(dnnl_primitive_destroy(primitive));
    for (int i = 0; i < count; i++)
        WANT(dnnl_memory_destroy(list[i].memory));
    return seconds;
}

static dnnl_primitive_desc_t chosen(const_dnnl_op_desc_t operation, const_dnnl_primitive_desc_t hint)
{
    dnnl_primitive_desc_t pd;
    WANT(dnnl_primitive_desc_create(&pd, operation, NULL, engine(), hint));
    return pd;
}

static const onednn_operand forward_operands[] = {{DNNL_ARG_SRC, dnnl_query_src_md}, {DNNL_ARG_WEIGHTS, dnnl_query_weights_md},
                                             {DNNL_ARG_DST, dnnl_query_dst_md}};
static const onednn_operand data_operands[] = {{DNNL_ARG_DIFF_DST, dnnl_query_diff_dst_md}, {DNNL_ARG_WEIGHTS, dnnl_query_weights_md},
                                          {DNNL_ARG_DIFF_SRC, dnnl_query_diff_src_md}};
static const onednn_operand weights_operands[] = {{DNNL_ARG_SRC, dnnl_query_src_md}, {DNNL_ARG_DIFF_DST, dnnl_query_diff_dst_md},
                                             {DNNL_ARG_DIFF_WEIGHTS, dnnl_query_diff_weights_md}};

/* Times of the three operations; data and weights take their layouts from forward's choice as a hint. */
static onednn_times times_of(const_dnnl_op_desc_t forward, const_dnnl_op_desc_t data, const_dnnl_op_desc_t weights)
{
    onednn_times t;
    dnnl_primitive_desc_t first = chosen(forward, NULL), second = chosen(data, first), third = chosen(weights, first);
    t.forward = time_of(first, forward_operands, 3);
    t.data = time_of(second, data_operands, 3);
    t.weights = time_of(third, weights_operands, 3);
    WANT(dnnl_primitive_desc_destroy(third));
    WANT(dnnl_primitive_desc_destroy(second));
    WANT(dnnl_primitive_desc_destroy(first));
    return t;
}

onednn_times onednn_conv(const iso_conv *c, uint32_t n)
{
    dnnl_memory_desc_t x = any(4, (dnnl_dims_t){n, c->channels, c->rows, c->columns});
    dnnl_memory_desc_t w = any(4, (dnnl_dims_t){c->filters, c->channels, c->kernel_rows, c->kernel_columns});
    dnnl_memory_desc_t y = any(4, (dnnl_dims_t){n, c->filters, c->out_rows, c->out_columns});
    const dnnl_dims_t stride = {c->stride, c->stride}, pad = {c->pad_rows, c->pad_columns};
    dnnl_convolution_desc_t forward, data, weights;
    WANT(dnnl_convolution_forward_desc_init(&forward, dnnl_forward_training, dnnl_convolution_auto, &x, &w, NULL, &y, stride, pad, pad));
    WANT(dnnl_convolution_backward_data_desc_init(&data, dnnl_convolution_auto, &x, &w, &y, stride, pad, pad));
    WANT(dnnl_convolution_backward_weights_desc_init(&weights, dnnl_convolution_auto, &x, &w, NULL, &y, stride, pad, pad));
    return times_of(&forward, &data, &weights);
}

onednn_times onednn_dense(uint32_t in, uint32_t out, uint32_t n)
{
    dnnl_memory_desc_t x = any(2, (dnnl_dims_t){n, in}), w = any(2, (dnnl_dims_t){out, in}), y = any(2, (dnnl_dims_t){n, out});
    dnnl_inner_product_desc_t forward, data, weights;
    WANT(dnnl_inner_product_forward_desc_init(&forward, dnnl_forward_training, &x, &w, NULL, &y));
    WANT(dnnl_inner_product_backward_data_desc_init(&data, &x, &w, &y));
    WANT(dnnl_inner_product_backward_weights_desc_init(&weights, &x, &w, NULL, &y));
    return times_of(&forward, &data, &weights);
}
