-- Puts back a message whose delivery does not count: given back, or lapsed for the first time. If keys have a rate,
-- the slot that it took is free again, for it or the next of its lane.
--   put_back: puts the message where it belongs
-- needs: rule, let_in; keys: slots
-- gives: token_back
local function token_back(lane, put_back)
  if not rule.interval then
    put_back()
    return
  end
  redis.call('ZREM', slots, string.format('%.0f', lane))
  put_back()
  let_in({ lane })
end
