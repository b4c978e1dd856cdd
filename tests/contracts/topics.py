"""topics.py create|delete KAFKA TOPIC: for the examples, three partitions."""
import sys

from confluent_kafka.admin import AdminClient, NewTopic

what, kafka, topic = sys.argv[1:]
admin = AdminClient({"bootstrap.servers": kafka})
if what == "create":
    futures = admin.create_topics([NewTopic(topic, 3, 1)], operation_timeout=10)
else:
    futures = admin.delete_topics([topic], operation_timeout=10)
futures[topic].result(20)
