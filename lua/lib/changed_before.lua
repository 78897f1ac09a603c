-- The reply of a call of a verb on chosen messages that was done before, from its note (lib/changed).
-- needs: register, done
-- gives: changed_before
local function changed_before()
  local score, member, leased = register:match('^%d+ (%S*) (.*) (%d+) %d*$')
  return { done, score or '', member or '', tonumber(leased) or 0 } -- of a later call, if this one is late: not read
end
