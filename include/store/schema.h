/* Whether this binary can work on the schema it finds. */
#ifndef BELFRY_STORE_SCHEMA_H
#define BELFRY_STORE_SCHEMA_H

#include "base/status.h"
#include "io/db.h"

/* The newest file of sql/schema this binary was written for. */
enum { STORE_SCHEMA_VERSION = 13 };

/* Call after db_open. ST_FATAL with EXIT_SCHEMA when the schema is missing, older than STORE_SCHEMA_VERSION,
 * or newer with an oldest_ok above it; the text says which version was found and which is needed. */
MUST_USE enum status store_check_schema(struct db *db, struct fault *fault);

#endif
