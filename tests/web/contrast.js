// The texts of the page whose contrast with what is behind them is less than WCAG AA asks for.
() => {
  const canvas = document.createElement("canvas").getContext("2d", { willReadFrequently: true });
  const known = new Map();  // reading a pixel takes long
  const rgba = (css) => {
    if (known.has(css)) return known.get(css);
    canvas.clearRect(0, 0, 1, 1);
    canvas.fillStyle = css;
    canvas.fillRect(0, 0, 1, 1);
    known.set(css, [...canvas.getImageData(0, 0, 1, 1).data]);
    return known.get(css);
  };
  const over = ([r, g, b, a], under) => [r, g, b].map((c, k) => (c * a + under[k] * (255 - a)) / 255);
  const light = (rgb) => rgb
    .map((c) => c / 255).map((c) => (c <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4))
    .reduce((sum, c, k) => sum + c * [0.2126, 0.7152, 0.0722][k], 0);
  const behind = (element) => {
    const layers = [];
    for (let e = element; e; e = e.parentElement) layers.push(rgba(getComputedStyle(e).backgroundColor));
    return layers.reverse().reduce((under, layer) => over(layer, under), [255, 255, 255]);
  };
  const poor = [];
  for (const element of document.querySelectorAll("body *")) {
    const text = [...element.childNodes].filter((n) => n.nodeType === 3).map((n) => n.data.trim()).join("");
    if (!text || !element.checkVisibility() || element.closest(".hidden, .skip, canvas")) continue;
    const style = getComputedStyle(element), back = behind(element);
    let opacity = 255;
    for (let e = element; e; e = e.parentElement) opacity *= Number(getComputedStyle(e).opacity);
    const ink = rgba(style.color);
    const [a, b] = [light(over([...ink.slice(0, 3), (ink[3] * opacity) / 255], back)), light(back)].sort();
    const ratio = (b + 0.05) / (a + 0.05), size = parseFloat(style.fontSize);
    if (ratio < (size >= 24 || (size >= 18.66 && style.fontWeight >= 700) ? 3 : 4.5))
      poor.push(`${text.slice(0, 40)}: ${ratio.toFixed(2)}`);
  }
  return poor;
}
