from django.db import models


class Order(models.Model):
    item = models.CharField(max_length=50)
    total = models.DecimalField(max_digits=8, decimal_places=2)
    invoice = models.CharField(max_length=50, blank=True)

    def __str__(self) -> str:
        return f"order {self.pk}: {self.item}"
