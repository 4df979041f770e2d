/* SPDX-License-Identifier: Apache-2.0
 * The policy of a job: which there are and what they can be told comes from the core's table alone. */
#include <stdio.h>
#include <string.h>

#include "isochron/core.h"
#include "job/schema.h"
#include "job/words.h"

static const iso_policy *find(const char *name, iso_error *e)
{
    const iso_policy *policy = iso_policy_find(name);
    if (policy)
        return policy;
    const char *words[64];
    uint32_t count = iso_policy_count() < 64 ? iso_policy_count() : 64;
    for (uint32_t i = 0; i < count; i++)
        words[i] = iso_policy_name(iso_policy_at(i));
    iso_job_unknown(e, "sync", "policy", name, words, count);
    return NULL;
}

/* Name and parameters into the job, all or nothing. */
static int store(iso_job *job, const char *name, const char *parameters, iso_error *e)
{
    if (strlen(name) >= sizeof job->policy || strlen(parameters) >= sizeof job->parameters)
        return iso_error_set(e, ISO_E_JOB, "sync is longer than %zu bytes", sizeof job->parameters - 1);
    memcpy(job->policy, name, strlen(name) + 1);
    memmove(job->parameters, parameters, strlen(parameters) + 1);
    return ISO_OK;
}

/* The core's own message, as an error of the job. */
static int as_job_error(int r, iso_error *e)
{
    if (r != ISO_E_ARGUMENT)
        return r;
    if (e)
        e->code = ISO_E_JOB;
    return ISO_E_JOB;
}

int iso_job_sync_set(iso_job *job, const char *text, iso_error *e)
{
    char name[ISO_WORD_MAX];
    size_t length = strcspn(text, ":");
    const char *parameters = text + length + (text[length] == ':');
    snprintf(name, sizeof name, "%.*s", (int)(length < sizeof name ? length : sizeof name - 1), text);
    const iso_policy *policy = find(name, e);
    if (!policy)
        return ISO_E_JOB;
    iso_policy_spec spec;
    iso_policy_spec_default(&spec, policy);
    int r = iso_policy_spec_parse(&spec, parameters, e);
    return r ? as_job_error(r, e) : store(job, name, parameters, e);
}

static int fail(const job_source *s, uint32_t node, iso_error *e, const char *sentence)
{
    iso_error_set(e, ISO_E_JOB, "%s", sentence);
    return iso_job_fail_at(s, node, e);
}

/* Appends key=value to the parameters. */
static int append(char *parameters, const job_source *s, uint32_t key, const char *value, iso_error *e)
{
    size_t length = strlen(parameters);
    if (strpbrk(value, ":="))
        return fail(s, key, e, "sync: a value with ':' or '=' in it");
    int more = snprintf(parameters + length, ISO_SYNC_MAX - length, "%s%s=%s", length ? ":" : "",
                        iso_tree_text(s->tree, key), value);
    return (size_t)more < ISO_SYNC_MAX - length ? ISO_OK : fail(s, key, e, "sync: too many parameters");
}

int iso_job_sync_set_map(iso_job *job, const job_source *s, uint32_t map, iso_error *e)
{
    const tree *t = s->tree;
    uint32_t name = 0;
    for (uint32_t key = iso_tree_node(t, map)->child; key; key = iso_tree_node(t, iso_tree_node(t, key)->next)->next) {
        uint32_t value = iso_tree_node(t, key)->next;
        if (iso_tree_node(t, value)->kind != TREE_SCALAR)
            return fail(s, value, e, "sync: a parameter has one value");
        if (!strcmp(iso_tree_text(t, key), "policy")) {
            if (name)
                return fail(s, key, e, "sync.policy is there twice");
            name = value;
        }
    }
    if (!name)
        return fail(s, map, e, "sync needs policy: {policy: NAME, ...}");
    const iso_policy *policy = find(iso_tree_text(t, name), e);
    if (!policy)
        return iso_job_fail_at(s, name, e);
    iso_policy_spec spec;
    iso_policy_spec_default(&spec, policy);
    char parameters[ISO_SYNC_MAX] = "";
    for (uint32_t key = iso_tree_node(t, map)->child; key; key = iso_tree_node(t, iso_tree_node(t, key)->next)->next) {
        uint32_t value = iso_tree_node(t, key)->next;
        if (value == name)
            continue;
        if (as_job_error(iso_policy_spec_set(&spec, iso_tree_text(t, key), iso_tree_text(t, value), e), e))
            return iso_job_fail_at(s, value, e);
        int r = append(parameters, s, key, iso_tree_text(t, value), e);
        if (r)
            return r;
    }
    iso_policy_spec again; /* what one by one cannot see: a key twice */
    iso_policy_spec_default(&again, policy);
    if (as_job_error(iso_policy_spec_parse(&again, parameters, e), e))
        return iso_job_fail_at(s, map, e);
    return store(job, iso_policy_name(policy), parameters, e) ? iso_job_fail_at(s, map, e) : ISO_OK;
}
