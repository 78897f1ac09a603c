-- The field `struck` of a state: the message has failed in a way that counts against its dependency. Its first failure since
-- it was sent or redriven is evidence that the dependency is down, later ones are not: otherwise the retries of bad messages
-- would look like an outage.
--   struck=LAST/CHARGED/REFUNDS: when it last failed so; how often that charged it, since the signs began (lib/read_signs); how
--   often such charges were refunded
-- gives: read_struck, with_struck
local function read_struck(more)
  local last, charged, refunds = more:match(' struck=(%d+)/(%d+)/(%d+)')
  return tonumber(last or nil), tonumber(charged or 0), tonumber(refunds or 0)
end

local function with_struck(more, last, charged, refunds)
  return more:gsub(' struck=%S*', '') .. string.format(' struck=%.0f/%d/%d', last, charged, refunds)
end
