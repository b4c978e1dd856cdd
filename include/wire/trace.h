/* W3C Trace Context: the traceparent header. */
#ifndef BELFRY_WIRE_TRACE_H
#define BELFRY_WIRE_TRACE_H

#include "base/span.h"

/* The header's value when it is one of version 00 (55 lower-case bytes, ids not all zero), else nothing: a
 * broken trace is not carried on, and is never a reason to refuse a record. */
struct span trace_parent_valid(struct span header);
/* Its trace-id, as log lines carry it (trace_id); nothing when the header is not valid. */
struct span trace_id_of(struct span header);

#endif
