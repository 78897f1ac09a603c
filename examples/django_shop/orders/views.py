from django.db import transaction
from django.http import HttpRequest, JsonResponse
from django.views.decorators.csrf import csrf_exempt
from django.views.decorators.http import require_POST

from orders.models import Order
from orders.tasks import write_invoice


@csrf_exempt  # for programs
@require_POST
def place(request: HttpRequest) -> JsonResponse:
    with transaction.atomic():
        order = Order.objects.create(item=request.POST["item"], total=request.POST["total"])
        result = write_invoice.enqueue(order.pk)
    return JsonResponse({"order": order.pk, "result": result.id}, status=202)


def show(request: HttpRequest, number: int) -> JsonResponse:
    order = Order.objects.get(pk=number)
    result = write_invoice.get_result(request.GET["result"])
    return JsonResponse({"invoice": order.invoice, "status": result.status, "attempts": result.attempts})
