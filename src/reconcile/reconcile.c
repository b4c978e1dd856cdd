/* The reconciler's loops, each in a thread of its own with a connection of its own: what one waits for
 * must not hold up the others. Always holds: nothing is shared but metrics and readiness. The first loop that
 * cannot go on stops the process. */
#include "private.h"

#include <pthread.h>
#include <stdlib.h>

#include "base/log.h"
#include "base/signals.h"

struct reconcile {
    struct reconcile_setup setup;
    struct drain *drain;
    struct poll_loop *poll;
    struct settle *settle;
    struct publish *publish; /* NULL: settled_topic is not set */
    struct retain *retain;
};

/* One loop's thread. */
struct worker {
    enum status (*run)(void *loop, struct fault *fault);
    void *loop;
    pthread_t thread;
    bool started;
    enum status status;
    struct fault fault;
};

static enum status run_poll(void *loop, struct fault *fault)
{
    return poll_run(loop, fault);
}

static enum status run_settle(void *loop, struct fault *fault)
{
    return settle_run(loop, fault);
}

static enum status run_publish(void *loop, struct fault *fault)
{
    return publish_run(loop, fault);
}

static enum status run_retain(void *loop, struct fault *fault)
{
    return retain_run(loop, fault);
}

enum status reconcile_new(const struct reconcile_setup *setup, struct reconcile **reconcile,
                          struct fault *fault)
{
    struct reconcile *made = calloc(1, sizeof *made);
    if (made == NULL) {
        fault_set(fault, "memory", "no memory for the reconciler");
        return ST_FATAL;
    }
    made->setup = *setup;
    struct metric_set *metrics = metrics_add(setup->metrics, reconcile_metric_rows, M_RECONCILE_COUNT);
    enum status status = drain_new(&made->setup, metrics, &made->drain, fault);
    if (status == ST_OK)
        status = poll_new(&made->setup, metrics, &made->poll, fault);
    if (status == ST_OK)
        status = settle_new(&made->setup, metrics, &made->settle, fault);
    if (status == ST_OK && reconcile_announces(&made->setup))
        status = publish_new(&made->setup, metrics, &made->publish, fault);
    if (status == ST_OK)
        status = retain_new(&made->setup, metrics, &made->retain, fault);
    if (status != ST_OK) {
        reconcile_free(made);
        return status;
    }
    *reconcile = made;
    return ST_OK;
}

void reconcile_free(struct reconcile *reconcile)
{
    if (reconcile == NULL)
        return;
    drain_free(reconcile->drain);
    poll_free(reconcile->poll);
    settle_free(reconcile->settle);
    publish_free(reconcile->publish);
    retain_free(reconcile->retain);
    free(reconcile);
}

static void *work(void *argument)
{
    struct worker *worker = argument;
    worker->status = worker->run(worker->loop, &worker->fault);
    if (worker->status == ST_FATAL)
        signals_stop();
    return NULL;
}

static enum status start(struct worker *worker, struct fault *fault)
{
    if (worker->loop == NULL)
        return ST_OK; /* not configured */
    if (pthread_create(&worker->thread, NULL, work, worker) != 0) {
        fault_set(fault, "thread", "no thread for a loop");
        return ST_FATAL;
    }
    worker->started = true;
    return ST_OK;
}

enum status reconcile_run(struct reconcile *reconcile, struct fault *fault)
{
    struct worker workers[] = {{.run = run_poll, .loop = reconcile->poll, .status = ST_OK},
                               {.run = run_settle, .loop = reconcile->settle, .status = ST_OK},
                               {.run = run_publish, .loop = reconcile->publish, .status = ST_OK},
                               {.run = run_retain, .loop = reconcile->retain, .status = ST_OK}};
    enum { WORKERS = sizeof workers / sizeof workers[0] };
    enum status status = drain_check(reconcile->drain, fault);
    for (size_t i = 0; status == ST_OK && i < WORKERS; i++)
        status = start(&workers[i], fault);
    if (status == ST_OK)
        status = drain_run(reconcile->drain, fault);
    if (status == ST_FATAL)
        signals_stop();
    for (size_t i = 0; i < WORKERS; i++) {
        if (!workers[i].started)
            continue;
        (void)pthread_join(workers[i].thread, NULL);
        if (status != ST_FATAL && workers[i].status == ST_FATAL) {
            status = ST_FATAL;
            *fault = workers[i].fault;
        }
    }
    return status == ST_FATAL ? ST_FATAL : ST_OK; /* ST_RETRY: stopped while something was still to be done */
}
