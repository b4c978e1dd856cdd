/* CloudEvents 1.0 around our object, both ways Kafka carries it (CloudEvents Kafka protocol binding 1.0.2):
 * structured (content-type: application/cloudevents+json, our object under `data`) and binary (ce_ headers,
 * our object as the value). */
#ifndef BELFRY_SRC_WIRE_CLOUDEVENT_H
#define BELFRY_SRC_WIRE_CLOUDEVENT_H

#include <jansson.h>
#include <stdbool.h>

#include "base/arena.h"
#include "base/span.h"
#include "base/status.h"
#include "model/event.h"
#include "wire/record.h"

enum cloudevent_mode { CLOUDEVENT_NONE, CLOUDEVENT_STRUCTURED, CLOUDEVENT_BINARY };

/* The attributes that mean something here, checked: specversion is 1.0, the others are not empty. */
struct cloudevent {
    enum cloudevent_mode mode;
    struct span id, source, type;
};

/* By the record's headers alone. */
enum cloudevent_mode cloudevent_mode_of(const struct wire_record *record);
/* Reads the attributes: of a structured event from its envelope into the arena, of a binary one from the
 * headers, whose bytes stay where they are. ST_REJECT `field` with the attribute's name (binary: ce_id …),
 * `nul`; ST_RETRY "arena". envelope is NULL for a binary one. */
MUST_USE enum status cloudevent_read(const struct wire_record *record, const json_t *envelope,
                                     struct arena *arena, struct cloudevent *cloud, struct fault *fault);
/* type gives event_type and source + id give run_id where the object has none: before its members are read.
 * run_id is source/id with the '%' and '/' of the id percent-encoded, so that no two events share one. */
MUST_USE enum status cloudevent_fill(const struct cloudevent *cloud, const json_t *object,
                                     struct arena *arena, struct event *event, struct fault *fault);

#endif
