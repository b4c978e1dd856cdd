# deploy/README.md, the operator's page, as far as a machine can run it: dispatcher_6_….
add_test(NAME dispatcher_6_install COMMAND ${CMAKE_CURRENT_SOURCE_DIR}/install_test ${PROJECT_SOURCE_DIR} ${CMAKE_BINARY_DIR})
belfry_test_properties(dispatcher_6_install system 60 TRUE)
# Needs no service; with promtool it also tests the rules.
add_test(NAME dispatcher_6_alerts COMMAND ${CMAKE_CURRENT_SOURCE_DIR}/alerts_test ${PROJECT_SOURCE_DIR})
set_tests_properties(dispatcher_6_alerts PROPERTIES LABELS unit TIMEOUT 60)
belfry_program(system_pgbouncer SOURCES pgbouncer_test.c LINK belfry_ledger belfry_reader_client)
add_dependencies(system_pgbouncer belfry-dispatcher belfry-reconciler belfry-reader belfry-simulator)
belfry_system(dispatcher_6_pgbouncer system_pgbouncer dispatcher/pgbouncer 180)
