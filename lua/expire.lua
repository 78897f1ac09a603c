-- Moves waiting messages whose time to live has ended to the expiry queue. Returns how many rows it checked.
-- drains
local limit = ARGV[1]
-- needs: expire
return expire(limit)
