/* The pieces of event_parse that have a file of their own. */
#ifndef BELFRY_SRC_WIRE_EVENT_PRIVATE_H
#define BELFRY_SRC_WIRE_EVENT_PRIVATE_H

#include <jansson.h>

#include "base/arena.h"
#include "base/status.h"
#include "model/event.h"

/* event_recipients.c: the distinct recipients with their keys. Comes last: it looks at the event's other
 * sizes before it makes anything for so many. */
MUST_USE enum status event_recipients_read(const json_t *object, struct arena *arena, struct event *event,
                                           struct fault *fault);

/* event_push.c: push_choice, push (the bytes as they came) and urgent. */
MUST_USE enum status event_push_read(const json_t *object, struct span bytes, struct event *event,
                                     struct fault *fault);

#endif
