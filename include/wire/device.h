/* belfry.devices: bytes -> struct device_change (contracts/events.md). The token is a secret: no fault has
 * it.
 *
 * Here a token is 1-256 printable ASCII bytes without blanks at this point of its life; whether its shape is
 * one the provider takes is asked when it is sent (`token_check`). app_version may be absent; platform may
 * not. */
#ifndef BELFRY_WIRE_DEVICE_H
#define BELFRY_WIRE_DEVICE_H

#include "base/arena.h"
#include "base/status.h"
#include "model/event.h"
#include "wire/record.h"

enum { DEVICE_TOKEN_MAX = 256, DEVICE_APP_VERSION_MAX = 100 };

/* As event_parse: the same reason codes, the same ST_RETRY "arena". at_us is `at`, else the record's
 * timestamp; missing or in the future it is now (a phone's wrong clock must not lock its own row). */
MUST_USE enum status device_parse(const struct wire_record *record, struct arena *arena,
                                  struct device_change *change, struct fault *fault);

#endif
