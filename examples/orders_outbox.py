"""The outbox that `rq-dlq outbox examples.orders_outbox:outbox` relays."""

import os

from sqlalchemy import create_engine

from rq_dlq import Broker
from rq_dlq.outbox import Outbox

broker = Broker()
orders = broker.queue("orders")
engine = create_engine(os.environ.get("DATABASE_URL", "sqlite:///orders.db"))
outbox = Outbox(broker, engine)
outbox.metadata.create_all(engine)
