/* Fills the exports that wait, one at a time, on a connection of its own to the primary and inside the
 * reader's one loop: nothing here waits. Several readers share the work by leases; an owner that dies loses
 * its lease, and what it had begun is not there, for one statement fills one export (store/export.h). */
#ifndef BELFRY_FEED_EXPORTER_H
#define BELFRY_FEED_EXPORTER_H

#include <poll.h>

#include "base/metrics.h"
#include "feed/feeds.h"
#include "feed/links.h"
#include "feed/settings.h"
#include "store/export.h"
#include "wire/export_body.h"

enum { EXPORTER_LOOK_MS = 1000, EXPORTER_LEASE_MARGIN_MS = 2000, EXPORTER_NAME_MAX = 200 };

enum exporter_step { EXPORTER_IDLE, EXPORTER_TAKES, EXPORTER_FILLS, EXPORTER_ENDS };

struct exporter {
    const struct export_settings *settings;
    const struct feeds *feeds;
    struct clock clock;
    struct metric_set *metrics;
    struct links links; /* one connection */
    struct export_lease lease;
    enum exporter_step step;
    bool leaving, fit; /* fit: as of the last pump */
    int64_t look_at_ms, since_ms;
    /* What it has: */
    struct uuid id;
    const struct feeds_entry *feed;
    char workspace[EXPORTER_NAME_MAX + 1], user[EXPORTER_NAME_MAX + 1];
    struct export_body filters;
};

/* Begins to connect. database: as the pages' primary; what filling needs else is set here. What is pointed at
 * must live until exporter_done. ST_FATAL: no memory. exporter_done in any case. */
MUST_USE enum status exporter_init(struct exporter *exporter, const struct db_settings *database,
                                   struct metrics *metrics, struct fault *fault);
void exporter_done(struct exporter *exporter);

/* As links_poll and links_wait_ms; fds holds LINKS_COUNT. */
void exporter_poll(const struct exporter *exporter, struct pollfd *fds);
int exporter_wait_ms(const struct exporter *exporter);
/* Goes on. fit: the primary was found to be one this binary can use. */
void exporter_pump(struct exporter *exporter, const struct pollfd *fds, bool fit);
/* There may be one to fill: it is looked for at once. ordered: a new one was ordered here. */
void exporter_kick(struct exporter *exporter, bool ordered);
/* Takes no further one; what was taken and not begun goes back. */
void exporter_leave(struct exporter *exporter);
bool exporter_is_busy(const struct exporter *exporter);

#endif
