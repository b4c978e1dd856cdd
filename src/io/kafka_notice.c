/* The lines of a log for what librdkafka says between calls: one table of ids and levels for every loop. The
 * loops give kafka_notice_log as on_notice; nothing else in io/ writes to the log. */
#include "base/log.h"
#include "io/kafka.h"

void kafka_notice_log(void *context, const struct kafka_notice *notice)
{
    static const struct {
        const char *id, *message; /* message NULL: the notice's own text */
        enum log_level level;
    } rows[] = {
        [KAFKA_NOTICE_LOG] = {"KAFKA-LOG", NULL, LOG_DEBUG},
        [KAFKA_NOTICE_ERROR] = {"KAFKA-ERROR", NULL, LOG_WARN},
        [KAFKA_NOTICE_TOPIC_MISSING] = {"KAFKA-TOPIC-MISSING",
                                        "a topic is missing; waiting for it"
                                        " (belfry-dispatcher --create-topics makes it)",
                                        LOG_ERROR},
        [KAFKA_NOTICE_TOPIC_FOUND] = {"KAFKA-TOPIC-FOUND", "a missing topic is there", LOG_INFO},
        [KAFKA_NOTICE_UNSEATED] = {"KAFKA-UNSEATED", NULL, LOG_WARN},
        [KAFKA_NOTICE_SEATED] = {"KAFKA-SEATED", NULL, LOG_INFO},
        [KAFKA_NOTICE_COMMIT_FAILED] = {"KAFKA-COMMIT",
                                        "the group's offsets were not committed; Postgres has them",
                                        LOG_INFO},
        [KAFKA_NOTICE_REBUILT] = {"KAFKA-REBUILT", "the producer was made anew; what it owes goes out again",
                                  LOG_WARN},
    };
    enum log_level level = rows[notice->kind].level;
    if (notice->kind == KAFKA_NOTICE_LOG && notice->severity <= 4)
        level = LOG_WARN;
    const char *message = rows[notice->kind].message;
    log_event(level, rows[notice->kind].id, message == NULL ? notice->text : message,
              log_text("client", context), log_text("code", notice->code), log_text("topic", notice->topic));
}
