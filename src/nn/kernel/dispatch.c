/* SPDX-License-Identifier: Apache-2.0
 * Which instruction set runs: names, what this CPU has, and the denormal guard of compute threads.
 */
#include <string.h>

#include "nn/kernel/kernel.h"

#if defined __x86_64__
#include <immintrin.h>
extern const iso_kernels iso_kernels_avx2, iso_kernels_avx512;
#endif
extern const iso_kernels iso_kernels_scalar;

static const char *const isa_names[] = {"auto", "scalar", "avx2", "avx512"};

int iso_isa_parse(const char *word, iso_isa *out)
{
    for (size_t i = 0; i < sizeof isa_names / sizeof *isa_names; i++) {
        if (strcmp(word, isa_names[i]) == 0) {
            *out = (iso_isa)i;
            return ISO_OK;
        }
    }
    return ISO_E_ARGUMENT;
}

const char *iso_isa_name(iso_isa isa)
{
    return (size_t)isa < sizeof isa_names / sizeof *isa_names ? isa_names[isa] : "?";
}

/* __builtin_cpu_supports looks at XCR0 too: a set whose registers the system does not save counts as missing. */
static bool isa_present(iso_isa isa)
{
    switch (isa) {
#if defined __x86_64__
    case ISO_ISA_AVX512:
        return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512dq") &&
               __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
    case ISO_ISA_AVX2:
        return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
#endif
    case ISO_ISA_SCALAR:
        return true;
    default:
        return false;
    }
}

iso_isa iso_isa_best(void)
{
    return isa_present(ISO_ISA_AVX512) ? ISO_ISA_AVX512 : isa_present(ISO_ISA_AVX2) ? ISO_ISA_AVX2 : ISO_ISA_SCALAR;
}

const iso_kernels *iso_kernels_of(iso_isa isa)
{
    if (isa == ISO_ISA_AUTO)
        isa = iso_isa_best();
    if (!isa_present(isa))
        return NULL;
    switch (isa) {
#if defined __x86_64__
    case ISO_ISA_AVX512:
        return &iso_kernels_avx512;
    case ISO_ISA_AVX2:
        return &iso_kernels_avx2;
#endif
    default:
        return &iso_kernels_scalar;
    }
}

uint32_t iso_kernels_flush_denormals(void)
{
#if defined __x86_64__
    uint32_t control = _mm_getcsr();
    _mm_setcsr(control | 0x8040u); /* flush to zero, denormals are zero */
    return control;
#elif defined __aarch64__
    uint64_t control;
    __asm__ volatile("mrs %0, fpcr" : "=r"(control));
    __asm__ volatile("msr fpcr, %0" : : "r"(control | (UINT64_C(1) << 24)));
    return (uint32_t)control;
#else
    return 0;
#endif
}

void iso_kernels_restore(uint32_t control)
{
#if defined __x86_64__
    _mm_setcsr(control);
#elif defined __aarch64__
    __asm__ volatile("msr fpcr, %0" : : "r"((uint64_t)control));
#else
    (void)control;
#endif
}
