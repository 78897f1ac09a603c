-- The lane of a message: the number of its key (rq_dlq/values/key.py), which stands in front of all that its sender packed
-- beside the body. nil: it has no key.
--   text: a record or a payload whose flags say that there is such a part; first: where that begins, with its length
-- gives: lane_in
local KEY = 1 -- the number of the field

local function lane_in(text, first)
  if text:byte(first + 2) ~= KEY then
    return nil
  end
  local a, b, c, d, e, f = text:byte(first + 5, first + 10)
  return f and ((((a * 256 + b) * 256 + c) * 256 + d) * 256 + e) * 256 + f
end
