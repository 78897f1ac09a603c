-- A duration in the queue's settings, in milliseconds; nil if the text is not one, which counts as unset.
-- gives: span
local function span(text)
  local value = tonumber(text and text:match('^%d+$') or nil)
  return value and value > 0 and value <= 315360000000 and value or nil -- ten years
end
