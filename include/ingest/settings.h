/* [ingest] once read (contracts/config.md). */
#ifndef BELFRY_INGEST_SETTINGS_H
#define BELFRY_INGEST_SETTINGS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct ingest_settings {
    size_t batch_max_events;
    size_t batch_max_recipients; /* one event at least, whatever it holds */
    size_t batch_max_bytes;      /* of the expanded rows */
    size_t record_max_bytes;
    size_t devices_per_user_max; /* the newest by last_seen */
    int64_t key_retention_ms;
    bool allow_short_key_retention;
};

#endif
