/* SPDX-License-Identifier: Apache-2.0
 * The table of policies, and the text form of their parameters: "nns", "hmdspt:payload=int4:local_batch=8". */
#include "core/policy.h"

#include <string.h>

#include "base/text.h"

static const iso_policy *const table[] = {
    &iso_policy_nns, &iso_policy_bsp,       &iso_policy_lb_bsp,     &iso_policy_cumulative, &iso_policy_online,
    &iso_policy_hmdspt, &iso_policy_mixbp,  &iso_policy_local_sgd,  &iso_policy_post_local, &iso_policy_adacomm,
    &iso_policy_fda, &iso_policy_diloco,    &iso_policy_ssp,        &iso_policy_asp,
};

enum { TABLE_COUNT = sizeof table / sizeof table[0], WORDS_BYTES = 400, SHOWN = 60 };

uint32_t iso_policy_count(void)
{
    return TABLE_COUNT;
}

const iso_policy *iso_policy_at(uint32_t index)
{
    return index < TABLE_COUNT ? table[index] : NULL;
}

static const iso_policy *find(const char *name, size_t length)
{
    for (uint32_t i = 0; i < TABLE_COUNT; i++)
        if (strlen(table[i]->name) == length && memcmp(table[i]->name, name, length) == 0)
            return table[i];
    return NULL;
}

const iso_policy *iso_policy_find(const char *name)
{
    return name ? find(name, strlen(name)) : NULL;
}

const char *iso_policy_name(const iso_policy *p)
{
    return p->name;
}

const char *iso_policy_summary(const iso_policy *p)
{
    return p->summary;
}

const char *iso_policy_source(const iso_policy *p)
{
    return p->source;
}

bool iso_policy_ignores_batch(const iso_policy *p)
{
    return p->ignores_batch;
}

const iso_option *iso_policy_parameters(const iso_policy *p, uint32_t *count)
{
    *count = p->parameter_count;
    return p->parameters;
}

void iso_policy_spec_default(iso_policy_spec *out, const iso_policy *p)
{
    memset(out, 0, sizeof *out);
    out->policy = p;
    for (uint32_t i = 0; i < p->parameter_count; i++)
        out->value[i] = p->parameters[i].standard;
}

/* ---- text ---- */

/* A list of words for a message, cut where the room ends. */
typedef struct words {
    char text[WORDS_BYTES];
    size_t used;
} words;

static void add_word(words *w, const char *word)
{
    const char *between = w->used > 0 ? ", " : "";
    size_t length = strlen(word), gap = strlen(between);
    if (w->used + gap + length + 1 > sizeof w->text)
        return;
    memcpy(w->text + w->used, between, gap);
    memcpy(w->text + w->used + gap, word, length);
    w->used += gap + length;
    w->text[w->used] = '\0';
}

/* A piece of the text for a message: cut, and nothing in it that a terminal would obey. */
static const char *shown(char out[SHOWN], const char *text, size_t length)
{
    size_t n = length < SHOWN - 1 ? length : SHOWN - 1;
    for (size_t i = 0; i < n; i++)
        out[i] = (unsigned char)text[i] < 0x20 || text[i] == 0x7F ? '?' : text[i];
    out[n] = '\0';
    return out;
}

static int no_such_parameter(const iso_policy *p, const char *key, size_t length, iso_error *e)
{
    char show[SHOWN];
    if (p->parameter_count == 0)
        return iso_error_set(e, ISO_E_ARGUMENT, "policy '%s' has no parameter '%s': it takes none", p->name,
                             shown(show, key, length));
    words list = {.used = 0};
    for (uint32_t i = 0; i < p->parameter_count; i++)
        add_word(&list, p->parameters[i].name);
    return iso_error_set(e, ISO_E_ARGUMENT, "policy '%s' has no parameter '%s'; its parameters are %s", p->name,
                         shown(show, key, length), list.text);
}

static bool is_word(const char *word, const char *text, size_t length)
{
    return strlen(word) == length && memcmp(word, text, length) == 0;
}

static int set_choice(const iso_policy *p, const iso_option *o, double *value, const char *text, size_t length,
                      iso_error *e)
{
    static const char *const truth[] = {"false", "true", NULL};
    const char *const *choices = o->type == ISO_OPTION_BOOL ? truth : o->choices;
    words list = {.used = 0};
    for (uint32_t i = 0; choices[i]; i++) {
        if (is_word(choices[i], text, length)) {
            *value = i;
            return ISO_OK;
        }
        add_word(&list, choices[i]);
    }
    char show[SHOWN];
    return iso_error_set(e, ISO_E_ARGUMENT, "policy '%s': parameter '%s' is '%s', expected one of %s", p->name, o->name,
                         shown(show, text, length), list.text);
}

static int set_number(const iso_policy *p, const iso_option *o, double *value, const char *text, size_t length,
                      iso_error *e)
{
    double number = 0;
    iso_parse result = iso_parse_double(text, length, &number);
    bool whole = o->type == ISO_OPTION_INT;
    if (result == ISO_PARSE_OK && !(number >= o->min && number <= o->max))
        result = ISO_PARSE_RANGE;
    if (result == ISO_PARSE_OK && (!whole || number == (double)(int64_t)number)) {
        *value = number;
        return ISO_OK;
    }
    char show[SHOWN], low[ISO_NUMBER_TEXT], high[ISO_NUMBER_TEXT];
    iso_print_double(low, o->min);
    iso_print_double(high, o->max);
    return iso_error_set(e, ISO_E_ARGUMENT, "policy '%s': parameter '%s' is '%s', expected a %s from %s to %s", p->name,
                         o->name, shown(show, text, length), whole ? "whole number" : "number", low, high);
}

int iso_policy_set(const iso_policy *p, double *value, const char *key, size_t key_length, const char *text,
                   size_t length, iso_error *e)
{
    for (uint32_t i = 0; i < p->parameter_count; i++) {
        const iso_option *o = &p->parameters[i];
        if (!is_word(o->name, key, key_length))
            continue;
        if (o->type == ISO_OPTION_BOOL || o->type == ISO_OPTION_CHOICE)
            return set_choice(p, o, &value[i], text, length, e);
        return set_number(p, o, &value[i], text, length, e);
    }
    return no_such_parameter(p, key, key_length, e);
}

/* Index of a parameter that exists. */
static uint32_t index_of(const iso_policy *p, const char *key, size_t length)
{
    uint32_t i = 0;
    while (!is_word(p->parameters[i].name, key, length))
        i++;
    return i;
}

int iso_policy_set_all(const iso_policy *p, double *value, const char *parameters, iso_error *e)
{
    double fresh[ISO_PARAMETERS_MAX];
    bool given[ISO_PARAMETERS_MAX] = {false};
    char show[SHOWN];
    memcpy(fresh, value, sizeof fresh);
    for (const char *at = parameters; *at != '\0';) {
        size_t length = strcspn(at, ":");
        const char *equals = memchr(at, '=', length);
        if (!equals)
            return iso_error_set(e, ISO_E_ARGUMENT,
                                 "policy '%s': expected parameters as key=value:key=value, found '%s'", p->name,
                                 shown(show, at, length));
        size_t key = (size_t)(equals - at);
        int status = iso_policy_set(p, fresh, at, key, equals + 1, length - key - 1, e);
        if (status != ISO_OK)
            return status;
        uint32_t index = index_of(p, at, key);
        if (given[index])
            return iso_error_set(e, ISO_E_ARGUMENT, "policy '%s': parameter '%s' is given twice", p->name,
                                 p->parameters[index].name);
        given[index] = true;
        at += length;
        if (*at == ':' && *++at == '\0')
            return iso_error_set(e, ISO_E_ARGUMENT, "policy '%s': a ':' at the end has no key=value behind it",
                                 p->name);
    }
    memcpy(value, fresh, sizeof fresh);
    return ISO_OK;
}

int iso_policy_spec_set(iso_policy_spec *spec, const char *key, const char *value, iso_error *e)
{
    return iso_policy_set(spec->policy, spec->value, key, strlen(key), value, strlen(value), e);
}

int iso_policy_spec_parse(iso_policy_spec *spec, const char *parameters, iso_error *e)
{
    return iso_policy_set_all(spec->policy, spec->value, parameters, e);
}

int iso_policy_parse(iso_policy_spec *out, const char *text, iso_error *e)
{
    size_t length = strcspn(text, ":");
    const iso_policy *p = find(text, length);
    if (!p) {
        words list = {.used = 0};
        for (uint32_t i = 0; i < TABLE_COUNT; i++)
            add_word(&list, table[i]->name);
        char show[SHOWN];
        return iso_error_set(e, ISO_E_ARGUMENT, "there is no policy '%s'; the policies are %s",
                             shown(show, text, length), list.text);
    }
    iso_policy_spec spec;
    iso_policy_spec_default(&spec, p);
    if (text[length] == ':') {
        if (text[length + 1] == '\0')
            return iso_error_set(e, ISO_E_ARGUMENT, "policy '%s': a ':' at the end has no key=value behind it",
                                 p->name);
        int status = iso_policy_spec_parse(&spec, text + length + 1, e);
        if (status != ISO_OK)
            return status;
    }
    *out = spec;
    return ISO_OK;
}
