/* In: sockets that became ready. Out: answers, and connections that come back by themselves after a loss.
 * Always: a connection that is lost answers what was in flight on it and is tried again with capped,
 * jittered waits; nothing here waits for the server. */
#include "feed/links.h"

#include "base/log.h"

enum status links_init(struct links *links, const struct links_setup *setup, struct fault *fault)
{
    *links = (struct links){.clock = setup->clock, .count = setup->count};
    for (size_t i = 0; i < links->count; i++) {
        struct link *link = &links->links[i];
        backoff_init(&link->backoff, LINKS_RETRY_FIRST_MS, LINKS_RETRY_CAP_MS, setup->seed + i);
        link->db = db_new(&setup->database);
        if (link->db == NULL) {
            fault_set(fault, "memory", "no memory for a database connection");
            return ST_FATAL;
        }
        db_connect_begin(link->db);
        link->seen = DB_CONNECTING;
    }
    return ST_OK;
}

void links_done(struct links *links)
{
    for (size_t i = 0; i < links->count; i++)
        db_close(links->links[i].db);
    *links = (struct links){.clock = links->clock};
}

void links_poll(const struct links *links, struct pollfd *fds)
{
    for (size_t i = 0; i < LINKS_COUNT; i++) {
        const struct db *db = links->links[i].db;
        fds[i] = (struct pollfd){.fd = -1};
        if (db != NULL)
            fds[i] = (struct pollfd){.fd = db_fd(db), .events = db_events(db)};
    }
}

void links_release(struct links *links)
{
    for (size_t i = 0; i < links->count; i++)
        db_release(links->links[i].db);
}

int links_wait_ms(const struct links *links)
{
    int64_t now_ms = clock_monotonic_ms(&links->clock), wait_ms = 1000; /* db_pump: once a second */
    for (size_t i = 0; i < links->count; i++) {
        const struct link *link = &links->links[i];
        if (link->seen == DB_DOWN && link->retry_at_ms - now_ms < wait_ms)
            wait_ms = link->retry_at_ms - now_ms;
    }
    return wait_ms < 0 ? 0 : (int)wait_ms;
}

static void links_lost(struct links *links, struct link *link)
{
    struct fault fault = {.code = ""};
    enum status why = db_why(link->db, &fault);
    int64_t wait_ms = backoff_next_ms(&link->backoff);
    if (why == ST_STOP)
        wait_ms = LINKS_RETRY_CAP_MS; /* until an operator acts: slowly */
    link->retry_at_ms = clock_monotonic_ms(&links->clock) + wait_ms;
    int64_t left_out = 0;
    if (log_gate_passes(&links->gate, fault.code, clock_monotonic_ms(&links->clock), &left_out))
        log_fault(why == ST_STOP ? LOG_ERROR : LOG_WARN, "READ-DB-DOWN", "no database connection; trying on",
                  why, &fault, log_count("link", (size_t)(link - links->links)),
                  log_int("left_out", left_out));
}

/* A look that finds nothing is a system call. */
static void links_look(struct link *link, short ready, int64_t now_ms)
{
    if (ready == 0 && db_is_up(link->db) && now_ms - link->pumped_ms < LINKS_TICK_MS)
        return;
    db_pump(link->db);
    link->pumped_ms = now_ms;
}

void links_pump(struct links *links, const struct pollfd *fds)
{
    int64_t now_ms = clock_monotonic_ms(&links->clock);
    for (size_t i = 0; i < links->count; i++) {
        struct link *link = &links->links[i];
        links_look(link, fds[i].revents, now_ms);
        enum db_state state = db_state(link->db);
        if (state == DB_UP && link->seen != DB_UP) {
            backoff_reset(&link->backoff);
            links->gate = (struct log_gate){.passed = false};
            log_event(LOG_INFO, "READ-DB-UP", "database connection made", log_count("link", i));
        }
        if (state == DB_DOWN && link->seen != DB_DOWN) {
            links_lost(links, link);
        } else if (state == DB_DOWN && now_ms >= link->retry_at_ms && db_in_flight(link->db) == 0) {
            db_connect_begin(link->db);
            state = db_state(link->db);
            if (state == DB_DOWN)
                links_lost(links, link);
        }
        link->seen = state;
    }
}

struct db *links_pick_small(struct links *links)
{
    for (size_t i = 0; i < links->count; i++) {
        struct db *db = links->links[i].db;
        if (db_joins(db) && db_in_flight(db) < LINKS_DEPTH)
            return db;
    }
    return links_pick(links);
}

struct db *links_pick(struct links *links)
{
    struct db *best = NULL;
    size_t least = LINKS_DEPTH;
    for (size_t i = 0; i < links->count; i++) {
        struct db *db = links->links[i].db;
        if (db_is_up(db) && db_in_flight(db) < least) {
            best = db;
            least = db_in_flight(db);
        }
    }
    return best;
}

size_t links_up(const struct links *links)
{
    size_t up = 0;
    for (size_t i = 0; i < links->count; i++)
        up += db_is_up(links->links[i].db);
    return up;
}

enum status links_why(const struct links *links, struct fault *fault)
{
    return db_why(links->links[0].db, fault);
}

bool links_take(struct links *links, struct db_answer *answer)
{
    for (size_t i = 0; i < links->count; i++)
        if (db_take(links->links[i].db, answer))
            return true;
    return false;
}
