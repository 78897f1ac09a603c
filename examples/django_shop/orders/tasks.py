from orders.models import Order

try:
    from django.tasks import task
except ImportError:  # before Django 6.0
    from django_tasks import task

PRICES = {"tea": "3.50", "cake": "4.00"}


@task()
def write_invoice(order_id: int) -> str:
    order = Order.objects.get(pk=order_id)  # it is there: the call is sent after the commit
    order.invoice = f"{order.item} for {PRICES[order.item]}"
    order.save()
    return order.invoice
