-- Puts one token on the list, never more. It wakes one waiting client, whose claim passes it on where work is left.
-- So no client polls, and a message wakes one of a thousand.
-- needs: keys: wake
-- gives: wake_one
local function wake_one()
  if redis.call('LLEN', wake) == 0 then
    redis.call('LPUSH', wake, 1)
    redis.call('PEXPIRE', wake, 5000) -- a client looks before it waits, so the token may go; none is left behind (I13)
  end
end
