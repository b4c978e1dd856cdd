/* belfry-reconciler: outcomes on the receipts topic and the provider's receipts -> final states. What comes
 * in is the configuration; what goes out is the exit code. A crash anywhere loses and doubles nothing
 * (design.md §5). */
#include <stddef.h>

#include "frame.h"
#include "model/owner.h"
#include "reconcile/reconcile.h"
#include "reconciler_audit.h"
#include "reconciler_config.h"

static enum status take_token(void *context, const void *settings, struct fault *fault)
{
    return reconcile_take_token(context, &((const struct reconciler_settings *)settings)->provider, fault);
}

static void reload_token(void *context, struct poll_loop *poll)
{
    frame_take_again(context, take_token, poll);
}

static enum status run(struct frame *frame, struct fault *fault)
{
    const struct reconciler_settings *settings = frame->settings;
    struct db_settings database = {.uri = settings->database.uri,
                                   .application_name = "belfry-reconciler",
                                   .role = DB_ROLE_RECONCILER,
                                   .prepared_statements = settings->database.prepared_statements,
                                   .clock = &frame->clock,
                                   .metrics = frame->metrics};
    struct reconcile_setup setup = {.settings = &settings->reconcile,
                                    .provider = &settings->provider,
                                    .database = &database,
                                    .kafka = &settings->kafka.properties,
                                    .receipts_topic = settings->topics.receipts,
                                    .dlq_topic = settings->topics.receipts_dlq,
                                    .settled_topic = settings->topics.settled_topic,
                                    .events_topic = settings->topics.events,
                                    .key_retention_ms = settings->ingest.key_retention_ms,
                                    .allow_short_key_retention = settings->ingest.allow_short_key_retention,
                                    .owner = owner_make(),
                                    .shutdown_timeout_ms = frame->run->shutdown_timeout_ms,
                                    .clock = &frame->clock,
                                    .metrics = frame->metrics,
                                    .readiness = frame->readiness,
                                    .reload = reload_token,
                                    .reload_context = frame};
    struct reconcile *reconcile = NULL;
    enum status status = reconcile_new(&setup, &reconcile, fault);
    if (status == ST_OK)
        status = reconcile_run(reconcile, fault);
    reconcile_free(reconcile);
    return status;
}

int main(int argc, char **argv)
{
    const struct frame_program program = {
        .name = "belfry-reconciler",
        .summary = "follows every push to its final receipt",
        .options = reconciler_options,
        .config = reconciler_table,
        .settings_bytes = sizeof(struct reconciler_settings),
        .run_offset = offsetof(struct reconciler_settings, run),
        .admin_offset = offsetof(struct reconciler_settings, admin),
        .check = reconciler_config_check,
        .run = run,
        .once = reconciler_audit,
    };
    return frame_main(&program, argc, argv);
}
