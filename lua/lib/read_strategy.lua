-- The queue's settings for messages that die or expire; an empty table if there are none.
--   dead_letter: {"dead": keep|discard, "expired": expired|dead|discard, "transient": keep|discard, ...}
-- needs: read_json, setting
-- gives: read_strategy
local function read_strategy()
  return read_json(setting('dead_letter'))
end
