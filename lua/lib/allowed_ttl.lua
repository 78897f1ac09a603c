-- The time to live of a message: the sender's, or the queue's default, within the queue's bounds. Applied once, at send. As
-- in Artemis, a default is for messages without one, and then the bounds do not apply.
--   allowed: "DELAY MIN MAX" in milliseconds, "-" where unset; "never": messages do not expire
-- needs: span
-- gives: allowed_ttl
local function allowed_ttl(asked, allowed)
  if allowed == 'never' then
    return 0
  end
  local default, least, most = allowed:match('^(%S+) (%S+) (%S+)$')
  default, least, most = span(default), span(least), span(most)
  if default then
    return asked > 0 and asked or default
  elseif asked == 0 then
    return most or least or 0
  end
  return math.min(math.max(asked, least or asked), most or math.huge)
end
