/* belfry-dispatcher: argv in, exit code out. */
#include "dispatcher_config.h"
#include "frame.h"

int main(int argc, char **argv)
{
    const struct frame_program program = {.name = "belfry-dispatcher",
                                          .summary =
                                              "turns events from Kafka into notifications and device pushes",
                                          .options = dispatcher_options,
                                          .config = dispatcher_table,
                                          .settings_bytes = sizeof(struct dispatcher_settings),
                                          .run_offset = offsetof(struct dispatcher_settings, run),
                                          .admin_offset = offsetof(struct dispatcher_settings, admin),
                                          .check = dispatcher_config_check};
    return frame_main(&program, argc, argv);
}
