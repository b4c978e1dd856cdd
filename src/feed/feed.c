/* In: the reader's settings. Out: pages over HTTP until the process is asked to leave. Always: one thread,
 * and nothing in the loop waits for anything but poll(2). A crash here loses the answers under way; cursors
 * go on with any other reader that has the same keys. */
#include "feed/feed.h"

#include <poll.h>
#include <stdlib.h>

#include "base/log.h"
#include "base/signals.h"
#include "feed/keys.h"
#include "feed/links.h"
#include "feed/serve.h"
#include "store/page.h"
#include "store/schema.h"

enum {
    ANSWER_GRACE_MS = 1000, /* over statement_timeout: then the server counts as lost */
    DEADLINE_TICK_MS = 50,
    IDLE_CLIENTS_MS = 500, /* leaving: how long idle connections may still ask something */
    POLL_HTTP = 0,
    POLL_STOP = 1,
    POLL_LINKS = 2,
    POLL_EXPORTER = POLL_LINKS + SERVE_POOLS * LINKS_COUNT,
    POLL_COUNT = POLL_EXPORTER + LINKS_COUNT
};

struct feed {
    struct feed_setup setup;
    struct keys keys;
    struct links links[SERVE_POOLS]; /* the second is unused where pages come from the primary */
    struct serve serve;
    struct exporter exporter;
    struct http_server *server;
    size_t slots[SERVE_POOLS];
    bool leaving;
    int64_t leaving_since_ms;
};

static struct db_settings feed_database_settings(const struct feed_setup *setup, const char *uri)
{
    return (struct db_settings){
        .uri = uri,
        .application_name = "belfry-reader",
        .role = DB_ROLE_READER,
        .prepared_statements = setup->prepared_statements,
        .statement_timeout_max_ms = (int)setup->http->statement_timeout_ms,
        .answer_timeout_ms = (int)setup->http->statement_timeout_ms + ANSWER_GRACE_MS,
        .clock = &setup->clock,
        .metrics = setup->metrics,
    };
}

enum status feed_check(const struct feed_settings *settings, struct config *config, struct fault *fault)
{
    struct keys keys;
    struct feeds *feeds = calloc(1, sizeof *feeds);
    if (feeds == NULL) {
        fault_set(fault, "memory", "no memory for the feeds");
        return ST_FATAL;
    }
    enum status status = feeds_init(feeds, &settings->feeds, 0, fault);
    if (status == ST_OK)
        status = keys_load(settings, &keys, fault);
    if (status == ST_OK) {
        feeds_warn(feeds, config);
        keys_warn(&keys, config);
        keys_wipe(&keys);
    }
    feeds_done(feeds);
    free(feeds);
    return status;
}

/* Begins to connect: to where pages come from, and to the primary where that is another. */
static enum status feed_link(struct feed *feed, struct fault *fault)
{
    static const char *const slots[SERVE_POOLS] = {"database", "primary"};
    const struct feed_setup *setup = &feed->setup;
    const char *const uris[SERVE_POOLS] = {setup->database_uri, setup->primary_uri};
    for (size_t i = 0; i < SERVE_POOLS && uris[i] != NULL; i++) {
        struct links_setup links = {.database = feed_database_settings(setup, uris[i]),
                                    .clock = setup->clock,
                                    .seed = (uint64_t)clock_wall_us(&setup->clock) + i,
                                    .count = LINKS_COUNT};
        if (setup->readiness != NULL)
            feed->slots[i] = readiness_add(setup->readiness, slots[i], 0);
        enum status status = links_init(&feed->links[i], &links, fault);
        if (status != ST_OK)
            return status;
        feed->serve.pools[i].links = &feed->links[i];
    }
    struct db_settings primary =
        feed_database_settings(setup, uris[SERVE_PRIMARY] == NULL ? uris[SERVE_PAGES] : uris[SERVE_PRIMARY]);
    feed->exporter = (struct exporter){
        .settings = &setup->settings->exports, .feeds = &feed->serve.feeds, .clock = setup->clock};
    feed->serve.exporter = &feed->exporter;
    return exporter_init(&feed->exporter, &primary, setup->metrics, fault);
}

enum status feed_open(const struct feed_setup *setup, struct feed **feed, struct fault *fault)
{
    struct feed *made = calloc(1, sizeof *made);
    if (made == NULL) {
        fault_set(fault, "memory", "no memory for the reader");
        return ST_FATAL;
    }
    made->setup = *setup;
    made->serve = (struct serve){
        .settings = setup->settings, .http = setup->http, .clock = setup->clock, .keys = &made->keys};
    serve_init(&made->serve, setup->metrics);
    enum status status =
        feeds_init(&made->serve.feeds, &setup->settings->feeds, setup->http->settle_max_ms, fault);
    if (status == ST_OK)
        status = keys_load(setup->settings, &made->keys, fault);
    if (status == ST_OK)
        status = feed_link(made, fault);
    struct http_server_options options = {
        .listen = setup->http->listen,
        .connections_max = setup->http->max_connections,
        .handler = {.handle = serve_handle,
                    .finished = serve_finished,
                    .gone = serve_gone,
                    .context = &made->serve},
        .clock = setup->clock,
        .cors_origins = setup->http->cors_origins,
        .gzip = true,
    };
    if (status == ST_OK)
        status = http_server_open(&options, &made->server, fault);
    if (status != ST_OK) {
        feed_close(made);
        return status;
    }
    log_event(LOG_INFO, "READ-LISTEN", "serving pages", log_text("host", setup->http->listen.host),
              log_int("port", http_server_port(made->server)));
    *feed = made;
    return ST_OK;
}

void feed_close(struct feed *feed)
{
    if (feed == NULL)
        return;
    http_server_close(feed->server);
    serve_done(&feed->serve);
    for (size_t i = 0; i < SERVE_POOLS; i++)
        links_done(&feed->links[i]);
    exporter_done(&feed->exporter);
    keys_wipe(&feed->keys);
    free(feed);
}

enum status feed_take_keys(struct feed *feed, const struct feed_settings *settings, struct fault *fault)
{
    struct keys keys;
    enum status status = keys_load(settings, &keys, fault);
    if (status != ST_OK)
        return status;
    keys_wipe(&feed->keys);
    feed->keys = keys; /* moved */
    crypto_wipe(&keys, sizeof keys);
    log_event(LOG_INFO, "READ-KEYS", "new keys are in force",
              log_count("cursor_keys", feed->keys.cursor.count),
              log_count("auth_keys", feed->keys.auth.count));
    return ST_OK;
}

/* A declared feed against the catalog; a replica has the primary's. */
static enum status feed_check_catalog(struct feed *feed, struct feeds_entry *entry, struct db *db,
                                      struct fault *fault)
{
    if (entry->source != NULL)
        return ST_OK;
    enum status status = feeds_check(&feed->serve.feeds, entry, db, feed->setup.http->settle_max_ms, fault);
    if (status == ST_OK)
        log_event(LOG_INFO, "READ-FEED", "serving a declared feed", log_text("feed", entry->name),
                  log_text("relation", entry->source->relation),
                  log_bool("gapless", entry->source->settled != NULL));
    return status;
}

static enum status feed_fit(struct feed *feed, size_t which, struct db *db, struct fault *fault)
{
    struct feeds *feeds = &feed->serve.feeds;
    enum status status = store_check_schema(db, fault);
    for (size_t i = 0; which == SERVE_PAGES && status == ST_OK && i < feeds->count; i++)
        status = feed_check_catalog(feed, &feeds->entries[i], db, fault);
    return status;
}

/* Only a database that was found fit serves: role settings by io/db, the rest here, once a process. Before
 * it ever served, what an operator must mend ends the reader; later it is waited for, not ready. */
static enum status feed_watch_database(struct feed *feed, size_t which, struct fault *fault)
{
    struct fault why = {.code = ""};
    enum status status = ST_OK;
    struct serve_pool *pool = &feed->serve.pools[which];
    struct db *db = links_pick(pool->links);
    if (db != NULL && !pool->fit) {
        status = feed_fit(feed, which, db, &why);
        pool->fit = status == ST_OK;
    } else if (links_up(pool->links) == 0) {
        status = links_why(pool->links, &why);
    }
    if (pool->fit && links_up(pool->links) > 0) {
        readiness_ready(feed->setup.readiness, feed->slots[which]);
        return ST_OK;
    }
    readiness_not(feed->setup.readiness, feed->slots[which], why.text[0] == '\0' ? "connecting" : why.text);
    if (pool->fit || (status != ST_STOP && status != ST_FATAL))
        return ST_OK;
    *fault = why;
    return ST_FATAL;
}

static void feed_wait(struct feed *feed, struct pollfd fds[POLL_COUNT])
{
    fds[POLL_HTTP] = (struct pollfd){.fd = http_server_fd(feed->server), .events = POLLIN};
    /* Once it was seen it stays readable: then it is no news. */
    fds[POLL_STOP] = (struct pollfd){.fd = feed->leaving ? -1 : signals_stop_fd(), .events = POLLIN};
    int wait_ms = http_server_wait_ms(feed->server);
    for (size_t i = 0; i < SERVE_POOLS; i++) {
        struct pollfd *of_pool = fds + POLL_LINKS + i * LINKS_COUNT;
        for (size_t j = 0; j < LINKS_COUNT; j++)
            of_pool[j].fd = -1;
        if (feed->serve.pools[i].links == NULL)
            continue;
        links_release(&feed->links[i]);
        links_poll(&feed->links[i], of_pool);
        int links_ms = links_wait_ms(&feed->links[i]);
        if (wait_ms < 0 || links_ms < wait_ms)
            wait_ms = links_ms;
    }
    exporter_poll(&feed->exporter, fds + POLL_EXPORTER);
    int exporter_ms = exporter_wait_ms(&feed->exporter);
    if (wait_ms < 0 || exporter_ms < wait_ms)
        wait_ms = exporter_ms;
    /* Requests under way have deadlines, and so has leaving. */
    if ((feed->leaving || serve_pending(&feed->serve) > 0) && wait_ms > DEADLINE_TICK_MS)
        wait_ms = DEADLINE_TICK_MS;
    (void)poll(fds, POLL_COUNT, wait_ms);
}

/* One round. The database is looked at before requests: nothing is in flight on a connection that was just
 * made, so the schema may be asked for on it. */
static enum status feed_round(struct feed *feed, const struct pollfd fds[POLL_COUNT], struct fault *fault)
{
    struct db_answer answer;
    for (size_t i = 0; i < SERVE_POOLS; i++) {
        if (feed->serve.pools[i].links == NULL)
            continue;
        links_pump(&feed->links[i], fds + POLL_LINKS + i * LINKS_COUNT);
        enum status status = feed_watch_database(feed, i, fault);
        if (status != ST_OK)
            return status;
        while (links_take(&feed->links[i], &answer))
            serve_answer(&feed->serve, &answer);
    }
    const struct serve_pool *pools = feed->serve.pools;
    exporter_pump(&feed->exporter, fds + POLL_EXPORTER,
                  pools[SERVE_PAGES].fit && (pools[SERVE_PRIMARY].links == NULL || pools[SERVE_PRIMARY].fit));
    serve_waiting(&feed->serve);
    http_server_run(feed->server);
    return ST_OK;
}

static bool feed_left(struct feed *feed)
{
    if (!feed->leaving)
        return false;
    int64_t since_ms = clock_monotonic_ms(&feed->setup.clock) - feed->leaving_since_ms;
    if (since_ms >= feed->setup.shutdown_timeout_ms)
        return true;
    if (serve_pending(&feed->serve) > 0 || exporter_is_busy(&feed->exporter) ||
        http_server_streams(feed->server) > 0)
        return false;
    return http_server_connections(feed->server) == 0 || since_ms >= IDLE_CLIENTS_MS;
}

enum status feed_run(struct feed *feed, struct fault *fault)
{
    struct pollfd fds[POLL_COUNT];
    enum status status = ST_OK;
    while (status == ST_OK && !feed_left(feed)) {
        feed_wait(feed, fds);
        if (signals_take_reload() && feed->setup.reload != NULL)
            feed->setup.reload(feed->setup.reload_context, feed);
        if (signals_stopping() && !feed->leaving) {
            feed->leaving = true;
            feed->leaving_since_ms = clock_monotonic_ms(&feed->setup.clock);
            readiness_leave(feed->setup.readiness);
            http_server_quiesce(feed->server);
            exporter_leave(&feed->exporter);
        }
        status = feed_round(feed, fds, fault);
    }
    return status;
}
