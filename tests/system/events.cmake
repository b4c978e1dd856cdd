# Events end to end: what producers send, and what comes of it (issue "The dispatcher at full strength", ingest).
belfry_program(system_events SOURCES events_test.c LINK belfry_harness)
add_dependencies(system_events belfry-dispatcher belfry-dispatcher-crash belfry-reader belfry-simulator belfry-broker)
foreach(case cloudevents traceparent recipients mismatch key_retention timestamps numbers)
    belfry_system(dispatcher_1_${case} system_events dispatcher/${case} 240)
endforeach()
# The same under the names of stage tests.
belfry_test(dispatcher_1_missing_topic LABEL system PROGRAM stage_ingest_persist
    FILTER ingest/missing_topics_are_waited_for TIMEOUT 120 SERVICES)
belfry_test(dispatcher_1_fatal LABEL system PROGRAM stage_ingest_persist
    FILTER ingest/a_fenced_member_leaves_with_5 TIMEOUT 120 SERVICES)
belfry_test(dispatcher_1_brokers_away LABEL system PROGRAM stage_ingest_outage
    FILTER ingest/the_broker_goes_and_comes_back TIMEOUT 200 SERVICES)
belfry_program(system_replay SOURCES replay_test.c LINK belfry_harness)
add_dependencies(system_replay belfry-dispatcher belfry-dispatcher-crash)
belfry_system(dispatcher_1_replay_dlq system_replay dispatcher/replay_dlq 300)
belfry_system(dispatcher_1_replay_dlq_killed system_replay dispatcher/replay_dlq_killed 220)
