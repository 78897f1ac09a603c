-- The lanes of a message: of its key and of its dependency, the numbers of these (rq_dlq/values/key.py), which precede all
-- other fields that its sender packed beside the body. nil: it has none.
--   text: a record or a payload whose flags say that it has such fields; first: where they begin, with their length
-- gives: lanes_in
local KEY, DEPENDENCY = 1, 2 -- the numbers of the fields

local function lanes_in(text, first)
  local lanes, at = {}, first + 2
  for field = KEY, DEPENDENCY do
    local number, high, low, a, b, c, d, e, f = text:byte(at, at + 8)
    if f and number == field then
      lanes[field] = ((((a * 256 + b) * 256 + c) * 256 + d) * 256 + e) * 256 + f
      at = at + 3 + high * 256 + low
    end
  end
  return lanes[KEY], lanes[DEPENDENCY]
end
