-- Puts a message back that was handed out, but does not count as that: given back, or its first lapse. Where keys have a rate,
-- the slot that it took is free again, for it or the next of its lane.
--   put_back: puts it where it belongs
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
