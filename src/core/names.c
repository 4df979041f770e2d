/* SPDX-License-Identifier: Apache-2.0
 * Words for the enums of core.h, for logs and traces. */
#include "isochron/core.h"

const char *iso_frame_name(unsigned kind)
{
    switch (kind) {
#define CASE(name, value, text) \
    case value:                 \
        return text;
        ISO_FRAME_MAP(CASE)
#undef CASE
    default:
        return "?";
    }
}

const char *iso_effect_name(iso_effect_kind kind)
{
    switch (kind) {
#define CASE(name, text)    \
    case ISO_EFFECT_##name: \
        return text;
        ISO_EFFECT_MAP(CASE)
#undef CASE
    }
    return "?";
}

const char *iso_record_name(iso_record_kind kind)
{
    switch (kind) {
#define CASE(name, text)    \
    case ISO_RECORD_##name: \
        return text;
        ISO_RECORD_MAP(CASE)
#undef CASE
    }
    return "?";
}

const char *iso_purpose_name(iso_purpose_of_pass purpose)
{
    switch (purpose) {
    case ISO_PASS_VALIDATION:
        return "validation";
    case ISO_PASS_TEST:
        return "test";
    case ISO_PASS_TRAIN:
        return "train";
    }
    return "?";
}

const char *iso_node_state_name(iso_node_state state)
{
    switch (state) {
    case ISO_NODE_ABSENT:
        return "absent";
    case ISO_NODE_LIVE:
        return "live";
    case ISO_NODE_DEAD:
        return "dead";
    case ISO_NODE_LOST:
        return "lost";
    case ISO_NODE_LEFT:
        return "left";
    }
    return "?";
}

const char *iso_refusal_text(unsigned refusal)
{
    switch (refusal) {
    case ISO_REFUSAL_NONE:
        return "not refused";
    case ISO_REFUSAL_PROGRAM:
        return "the coordinator runs another version of the program; install the same one on all machines";
    case ISO_REFUSAL_JOB:
        return "the coordinator runs another job; start the node with the coordinator's job file";
    case ISO_REFUSAL_DATA:
        return "the node's training data is not the coordinator's (count or fingerprint differ); give it the same "
               "files";
    case ISO_REFUSAL_FULL:
        return "the node's number is beyond the coordinator's number of nodes";
    default:
        return "refused for a reason this version does not know";
    }
}
